"""What the page of a run says of pairs: whether answers outlast swapping, and who is right by gap and year."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tinsmith.lab.user_task.task import Answered, Section

RIGHT: Final = "right"
FIRST: Final = "first"
VALID: Final = "valid"
_GAPS: Final = ((1, 4), (5, 9), (10, 19), (20, 49), (50, None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """How pairs that were asked in both orders were answered; the shares are over these pairs."""

    pairs: int
    right_in_both: int
    wrong_in_both: int
    """The same paper is named in both orders, and it is the wrong one."""
    always_first: int
    always_second: int
    unreadable: int
    """At least one of the two answers names no paper."""

    @property
    def same_paper(self) -> int:
        """Pairs of which the same paper is named in both orders."""
        return self.right_in_both + self.wrong_in_both


def swapped(answers: Sequence[Answered]) -> Swapped:
    """Count what became of the answers when the papers changed places."""
    by_pair: dict[str, dict[str, Mapping[str, float]]] = {}
    for one in answers:
        by_pair.setdefault(str(one.item["pair"]), {})[str(one.item["order"])] = one.metrics
    both = [(each["ab"], each["ba"]) for each in by_pair.values() if len(each) == 2]
    read = [each for each in both if each[0][VALID] and each[1][VALID]]

    def count(name: str, value: float) -> int:
        return sum(one[name] == value == other[name] for one, other in read)

    return Swapped(
        pairs=len(both),
        right_in_both=count(RIGHT, 1.0),
        wrong_in_both=count(RIGHT, 0.0),
        always_first=count(FIRST, 1.0),
        always_second=count(FIRST, 0.0),
        unreadable=len(both) - len(read),
    )


def under_swapping(answers: Sequence[Answered]) -> str | list[dict[str, object]]:
    """Make the rows of the page's table."""
    found = swapped(answers)
    if not found.pairs:
        return "No pair was asked in both orders."
    told = {
        "right in both orders": found.right_in_both,
        "the same paper named in both": found.same_paper,
        "always the first": found.always_first,
        "always the second": found.always_second,
        "an answer that cannot be read": found.unreadable,
    }
    return [
        {"of pairs asked in both orders": name, "pairs": count, "share": _share(count, found.pairs)}
        for name, count in told.items()
    ]


def _share(count: float, of: int) -> str:
    return f"{count / of:.3f}"


def _by(name: str, value_of: Callable[[Mapping[str, Any]], tuple[int, str] | None]) -> Section:
    """Return a section: how many answers are right, by a value of their item; items without it are left out."""

    def section(answers: Sequence[Answered]) -> str | list[dict[str, object]]:
        found: dict[tuple[int, str], list[float]] = {}
        for one in answers:
            value = value_of(one.item)
            if value is not None:
                found.setdefault(value, []).append(one.metrics[RIGHT])
        if not found:
            return f"No pair of this corpus has a {name}."
        return [
            {name: told, "answers": len(each), "right": _share(sum(each), len(each))}
            for (_, told), each in sorted(found.items())
        ]

    return section


def _gap(item: Mapping[str, Any]) -> tuple[int, str]:
    low, high = next(each for each in _GAPS if each[1] is None or item["gap"] <= each[1])
    return low, f"{low} or more" if high is None else f"{low} to {high}"


def _year(item: Mapping[str, Any]) -> tuple[int, str]:
    return int(item["year"]), str(item["year"])


def _field(item: Mapping[str, Any]) -> tuple[int, str] | None:
    return None if item["field"] is None else (0, str(item["field"]))


SECTIONS: Final[Mapping[str, Section]] = {
    "Under swapping": under_swapping,
    "By gap": _by("gap", _gap),
    "By year": _by("year", _year),
    "By field": _by("field", _field),
}
"""By title."""
