"""Cache of adapters in memory, limited in bytes and number."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tinsmith.models.adapter import Adapter

MAX_BYTES, MAX_ADAPTERS = 1 << 30, 32
"""Limits of a cache, least recently used evicted first; at least one stays."""


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class AdapterCache(Generic[K, V]):
    """Adapters by key, each in an entry with what was made of it. Not thread-safe."""

    adapter: Callable[[V], Adapter]
    """Function that returns an entry's adapter, whose weights count."""
    evict: Callable[[K, V], None] | None = None
    """Called with an entry before it is dropped; if it raises, the entry stays."""
    _entries: OrderedDict[K, V] = field(default_factory=OrderedDict[K, V])
    """Least recently used first."""

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def find(self, key: K) -> V | None:
        """Return an entry, which counts as used now; None if there is none."""
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def put(self, key: K, entry: V) -> None:
        """Add an entry, and evict others as far as the limits demand."""
        self._entries[key] = entry
        sizes = [sum(weight.value.nbytes for weight in self.adapter(each).weights()) for each in self._entries.values()]
        for i in range(len(sizes) - 1):
            if sum(sizes[i:]) <= MAX_BYTES and len(sizes) - i <= MAX_ADAPTERS:
                return
            old, dropped = next(iter(self._entries.items()))
            if self.evict is not None:
                self.evict(old, dropped)
            del self._entries[old]

    def drop(self, key: K) -> None:
        """Remove an entry, if there is one."""
        self._entries.pop(key, None)
