"""Queue of waiting works, ordered by rank and arrival."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Queue:
    """Ids ordered by rank, then by place (their number in order of arrival)."""

    passed_over: int | None = None
    """Number of works that may overtake the oldest one; None if rank alone decides."""
    _order: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    _passed: int = 0

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids by place."""
        return (id for _, id in sorted((place, id) for _, place, id in self._order))

    def put(self, id: str, place: int, rank: int = 0) -> None:
        """Add an id; the lowest rank goes first."""
        insort(self._order, (rank, place, id))

    def remove(self, id: str, place: int, rank: int = 0) -> None:
        """Remove an id from any position."""
        del self._order[bisect_left(self._order, (rank, place, id))]

    def first(self) -> str | None:
        """The id that goes next."""
        return self._order[self._next()][2] if self._order else None

    def take(self) -> str:
        """Take out the id that goes next.

        Raises:
            IndexError: Nothing waits.
        """
        oldest = min(self._order, key=lambda entry: entry[1]) if self.passed_over is not None else None
        taken = self._order.pop(self._next())
        self._passed = 0 if taken == oldest else self._passed + 1
        return taken[2]

    def _next(self) -> int:
        if self.passed_over is None or self._passed < self.passed_over:
            return 0
        return min(range(len(self._order)), key=lambda i: self._order[i][1])
