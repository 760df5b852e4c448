"""What the consistency check finds: class sizes that explain every line, and the counts behind each line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CountRange:
    """A count known to lie from `low` to `high`; both equal where it is certain."""

    low: int
    high: int

    @property
    def certain(self) -> bool:
        """Whether one count is left."""
        return self.low == self.high

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Columns:
    """Labels whose class sizes are searched, and those whose sizes nothing tells, lumped together."""

    sized: tuple[str, ...]
    lumped: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What the columns of sizes and counts stand for."""
        return (*self.sized, " + ".join(self.lumped)) if self.lumped else self.sized


@dataclass(frozen=True, slots=True)
class SolvedLine:
    """One line's counts in one solution. Labels whose sizes nothing tells are lumped in the last column."""

    name: str
    correct: tuple[CountRange, ...]
    total: CountRange
    said: tuple[CountRange, ...]
    """Answers by label."""
    invalid: CountRange
    f1_checked: bool
    """Whether a printed macro-F1 took part; it does where few enough counts are open."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Class sizes that explain every line, and each line's counts."""

    n: int
    sizes: tuple[int, ...]
    lines: tuple[SolvedLine, ...]

    @property
    def best_constant(self) -> float:
        """Accuracy of always answering the largest class, lumped labels left out."""
        return max(self.sizes) / self.n


@dataclass(frozen=True, slots=True)
class Recovery:
    """All solutions, in ascending n and sizes; `truncated` where there are more than were listed."""

    columns: tuple[str, ...]
    """What the columns of sizes and counts stand for; a lump is named "a + b"."""
    solutions: tuple[Solution, ...]
    truncated: bool
    tried: tuple[int, int]
    """The smallest and largest n that was tried."""
    reasons: tuple[str, ...]
    """Where there is no solution: rates that alone rule n out, if there are any."""
