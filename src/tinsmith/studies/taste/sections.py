"""What the page of a run says of pairs: whether answers outlast swapping, and who is right by gap and year."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tinsmith.lab.user_task.task import Answered, Section

RIGHT: Final = "right"
FIRST: Final = "first"
VALID: Final = "valid"
_GAPS: Final = ((1, 4), (5, 9), (10, 19), (20, 49), (50, None))


def under_swapping(answers: Sequence[Answered]) -> str | list[dict[str, object]]:
    """Count what became of the answers when the papers changed places, of the pairs asked in both orders."""
    by_pair: dict[str, dict[str, Mapping[str, float]]] = {}
    for one in answers:
        by_pair.setdefault(str(one.item["pair"]), {})[str(one.item["order"])] = one.metrics
    both = [(each["ab"], each["ba"]) for each in by_pair.values() if len(each) == 2]
    read = [each for each in both if each[0][VALID] and each[1][VALID]]
    if not both:
        return "No pair was asked in both orders."

    def count(name: str, value: float) -> int:
        return sum(one[name] == value == other[name] for one, other in read)

    counts = {
        "right in both orders": count(RIGHT, 1.0),
        "the same paper named in both": count(RIGHT, 1.0) + count(RIGHT, 0.0),
        "always the first": count(FIRST, 1.0),
        "always the second": count(FIRST, 0.0),
        "an answer that cannot be read": len(both) - len(read),
    }
    return [
        {"of pairs asked in both orders": name, "pairs": found, "share": _share(found, len(both))}
        for name, found in counts.items()
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
