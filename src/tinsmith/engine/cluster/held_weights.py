"""Weights sent to workers and still in use on the server, with the workers that received them.

A worker caches weights by content and cannot know if they will be needed again; the sender can.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tinsmith.engine.cluster.work import Shipped, WeightsId


@dataclass(slots=True)
class HeldWeights:
    """Reference counts of weights. Not thread-safe."""

    gone: Callable[[WeightsId], None]
    """Called when the last reference to a counted object is gone: at any time, on any thread, even during a call here.
    It may only record that, and must leave `let_go` for later."""
    _counted: weakref.WeakSet[Shipped] = field(default_factory=weakref.WeakSet[Shipped])
    _copies: Counter[WeightsId] = field(default_factory=Counter[WeightsId])
    """Number of objects with the same weights: a session's own and a snapshot of it, for example."""
    _workers: defaultdict[WeightsId, set[str]] = field(default_factory=lambda: defaultdict[WeightsId, set[str]](set))

    def hold(self, weights: Shipped) -> None:
        """Count an object with these weights for as long as it is referenced."""
        if weights in self._counted:
            return
        self._counted.add(weights)
        self._copies[weights.id] += 1
        weakref.finalize(weights, self.gone, weights.id).atexit = False

    def sent(self, weights: WeightsId, worker: str) -> None:
        """Record that a worker has received them."""
        self._workers[weights].add(worker)

    def let_go(self, weights: WeightsId) -> tuple[str, ...]:
        """Decrement the count; return the workers that can drop the weights: none while other objects share them."""
        self._copies[weights] -= 1
        if self._copies[weights] > 0:
            return ()
        del self._copies[weights]
        return tuple(sorted(self._workers.pop(weights, ())))
