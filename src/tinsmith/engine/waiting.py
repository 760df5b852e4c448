"""Requests that wait for room in the cache: whoever asks for much waits behind those who ask for little."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from tinsmith.engine.sequences import Group


@dataclass(slots=True)
class Waiting:
    """A queue for each owner; they have their turns one after another.

    Which request is computed when changes no bit of any.
    """

    _queues: OrderedDict[str, OrderedDict[int, Group]] = field(
        default_factory=OrderedDict[str, "OrderedDict[int, Group]"]
    )
    """By owner, the next one first; groups by their id."""

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, group: Group, owner: str) -> None:
        """Put a request behind the others of its owner."""
        self._queues.setdefault(owner, OrderedDict())[id(group)] = group

    @property
    def first(self) -> Group:
        """Next group to be served."""
        return next(iter(next(iter(self._queues.values())).values()))

    def pop(self) -> Group:
        """Take it out; then it is another owner's turn."""
        owner, queue = self._queues.popitem(last=False)
        _, group = queue.popitem(last=False)
        if queue:
            self._queues[owner] = queue
        return group

    def remove(self, group: Group) -> bool:
        """Take a request out; return False if it does not wait."""
        for owner, queue in self._queues.items():
            if queue.pop(id(group), None) is not None:
                if not queue:
                    del self._queues[owner]
                return True
        return False
