"""Queue of waiting works: owners in turn, each one's by rank and arrival."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Queue:
    """Ids of owners served in turn, each one's ordered by rank, then by place (their number in order of arrival)."""

    passed_over: int | None = None
    """Number of works that may overtake the oldest one; None if rank alone decides."""
    _orders: OrderedDict[str, list[tuple[int, int, str]]] = field(
        default_factory=OrderedDict[str, list[tuple[int, int, str]]]
    )
    """Rank, place and id by owner, the next owner first; none is empty."""
    _passed: int = 0

    def __len__(self) -> int:
        return sum(map(len, self._orders.values()))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids by place."""
        return (id for _, id in sorted((place, id) for order in self._orders.values() for _, place, id in order))

    def put(self, id: str, place: int, rank: int = 0, owner: str = "") -> None:
        """Add an id; the owner's lowest rank goes first."""
        insort(self._orders.setdefault(owner, []), (rank, place, id))

    def remove(self, id: str, place: int, rank: int = 0, owner: str = "") -> None:
        """Remove an id from any position."""
        order = self._orders[owner]
        del order[bisect_left(order, (rank, place, id))]
        if not order:
            del self._orders[owner]

    def first(self) -> str | None:
        """The id that goes next."""
        order = next(iter(self._orders.values()), None)
        return None if order is None else order[self._next(order)][2]

    def take(self) -> str:
        """Take out the id that goes next; another owner's turn follows.

        Raises:
            KeyError: Nothing waits.
        """
        owner, order = self._orders.popitem(last=False)
        oldest = min(order, key=lambda entry: entry[1]) if self.passed_over is not None else None
        taken = order.pop(self._next(order))
        self._passed = 0 if taken == oldest else self._passed + 1
        if order:
            self._orders[owner] = order
        return taken[2]

    def _next(self, order: list[tuple[int, int, str]]) -> int:
        if self.passed_over is None or self._passed < self.passed_over:
            return 0
        return min(range(len(order)), key=lambda i: order[i][1])
