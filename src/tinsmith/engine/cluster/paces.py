"""Seconds of works for their size: usually, and at each worker."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tinsmith.engine.cluster.items import Item, WorkKind

KEPT: Final = 128
"""Works of a kind that the usual time is the median of."""
OWN_WEIGHT: Final = 0.5
"""Of a worker's last work in its own pace."""
ORDINARY: Final = 1.5
"""Up to so many times the usual pace a worker counts as any other: answers are longer or shorter by chance."""


@dataclass(slots=True)
class Paces:
    """Observed paces by kind of work: of works among others, and of works that a worker computed alone."""

    _seen: dict[tuple[WorkKind, bool], deque[float]] = field(default_factory=dict[tuple[WorkKind, bool], deque[float]])
    _usual: dict[tuple[WorkKind, bool], float] = field(default_factory=dict[tuple[WorkKind, bool], float])
    _own: dict[str, float] = field(default_factory=dict[str, float])

    def saw(self, worker: str, item: Item, seconds: float, *, alone: bool) -> None:
        """Remember that a work took so long at a worker."""
        pace = seconds / max(1, item.size)
        before = self._median((item.kind, alone))
        self._seen.setdefault((item.kind, alone), deque(maxlen=KEPT)).append(pace)
        self._usual.pop((item.kind, alone), None)
        if before is not None and before > 0:
            own = self._own.get(worker, 1.0)
            self._own[worker] = own + OWN_WEIGHT * (pace / before - own)

    def saw_at_least(self, worker: str, item: Item, seconds: float, *, alone: bool) -> None:
        """Remember that a work took longer than this at a worker: it was told to drop it then."""
        usual, own = self.usual(item, alone=alone), self._own.get(worker, 1.0)
        if usual and seconds / usual > own:
            self._own[worker] = own + OWN_WEIGHT * (seconds / usual - own)

    def usual(self, item: Item, *, alone: bool = False) -> float | None:
        """Seconds that a work usually takes; None before the first one of its kind.

        How long it takes alone is not known before the first one that was: then it is what it takes among others.
        """
        median = self._median((item.kind, alone))
        if median is None and alone:
            median = self._median((item.kind, False))
        return None if median is None else median * max(1, item.size)

    def slowness(self, worker: str) -> float:
        """Return the multiple of the usual time that a worker takes; 1 for all but slow ones."""
        own = self._own.get(worker, 1.0)
        return own if own > ORDINARY else 1.0

    def knows(self, worker: str) -> bool:
        """True if the pace of a worker is known."""
        return worker in self._own

    def forget(self, worker: str) -> None:
        """Forget what is known of a worker: who comes by its name later is another."""
        self._own.pop(worker, None)

    @property
    def by_worker(self) -> Mapping[str, float]:
        """The pace of each worker that has been seen, as a multiple of the usual one."""
        return self._own

    def _median(self, key: tuple[WorkKind, bool]) -> float | None:
        if key not in self._usual and key in self._seen:
            self._usual[key] = statistics.median(self._seen[key])
        return self._usual.get(key)
