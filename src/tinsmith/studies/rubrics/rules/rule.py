"""What every rule is: a predicate over any text, with a text form of its own; and how many is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from tinsmith.types.errors import DataError

LARGEST: Final = 999_999
"""No count in a rule is larger."""


class Rule(Protocol):
    """A decidable predicate over responses."""

    @property
    def text(self) -> str:
        """The rule as a criterion carries it, behind `rule: `."""
        ...

    def holds(self, response: str) -> bool:
        """Whether the response obeys; total, and a function of the text alone."""
        ...


def quoted(text: str) -> str:
    """Return `text` in single quotes, those inside it doubled."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Bound:
    """How many: at least, at most, between, exactly.

    Raises:
        DataError: on making one that bounds nothing, runs downwards or is out of range.
    """

    least: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        ends = [end for end in (self.least, self.most) if end is not None]
        if not ends or ends != sorted(ends) or not all(0 <= end <= LARGEST for end in ends):
            allowed = f"0 <= least <= most <= {LARGEST}"
            raise DataError("no bound", field="bound", value=tuple(ends), allowed=allowed)

    @property
    def text(self) -> str:
        """As `exactly 3`, `at least 3`, `at most 3`, `between 3 and 5`."""
        if self.least == self.most:
            return f"exactly {self.least}"
        if self.most is None:
            return f"at least {self.least}"
        return (
            f"at most {self.most}"
            if self.least is None
            else f"between {self.least} and {self.most}"
        )

    def holds(self, count: int) -> bool:
        """Whether a count is within."""
        return (self.least is None or count >= self.least) and (
            self.most is None or count <= self.most
        )


AT_LEAST_ONE: Final = Bound(least=1)
NONE_AT_ALL: Final = Bound(least=0, most=0)
