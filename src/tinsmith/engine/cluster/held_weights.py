"""Weights that the server sent to workers and still has, and the workers that were sent them.

A worker keeps weights by their content and cannot know whether they will be asked for again; whoever sent them can.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tinsmith.engine.cluster.work import Shipped, WeightsId


@dataclass(slots=True)
class HeldWeights:
    """Counts weights by what holds them. One caller at a time."""

    gone: Callable[[WeightsId], None]
    """Called when nothing holds something that was counted any more: at any time, on any thread, also in the middle of
    a call here. It may only note it, and have `let_go` called later."""
    _counted: weakref.WeakSet[Shipped] = field(default_factory=weakref.WeakSet[Shipped])
    _copies: Counter[WeightsId] = field(default_factory=Counter[WeightsId])
    """Things with the same weights: a session's own, and a snapshot of it."""
    _workers: defaultdict[WeightsId, set[str]] = field(default_factory=lambda: defaultdict[WeightsId, set[str]](set))

    def hold(self, weights: Shipped) -> None:
        """Count these for as long as anything holds them."""
        if weights in self._counted:
            return
        self._counted.add(weights)
        self._copies[weights.id] += 1
        weakref.finalize(weights, self.gone, weights.id).atexit = False

    def sent(self, weights: WeightsId, worker: str) -> None:
        """Note that a worker has them from now on."""
        self._workers[weights].add(worker)

    def let_go(self, weights: WeightsId) -> tuple[str, ...]:
        """Count one less; return the workers that can forget the weights: none while others hold the same."""
        self._copies[weights] -= 1
        if self._copies[weights] > 0:
            return ()
        del self._copies[weights]
        return tuple(sorted(self._workers.pop(weights, ())))
