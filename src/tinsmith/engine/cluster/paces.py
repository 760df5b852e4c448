"""How long works take for their size: usually, and at each worker."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tinsmith.engine.cluster.items import WorkKind

KEPT: Final = 128
"""Works of a kind that the usual time is the median of."""
OWN_WEIGHT: Final = 0.5
"""Of a worker's last work in its own pace."""
ORDINARY: Final = 1.5
"""Up to so many times the usual pace a worker counts as any other: answers are longer or shorter by chance."""


@dataclass(slots=True)
class Paces:
    """What was seen, by kind of work."""

    _seen: dict[WorkKind, deque[float]] = field(default_factory=dict[WorkKind, deque[float]])
    _usual: dict[WorkKind, float] = field(default_factory=dict[WorkKind, float])
    _own: dict[str, float] = field(default_factory=dict[str, float])

    def saw(self, worker: str, kind: WorkKind, size: int, seconds: float) -> None:
        """Remember that a work took so long at a worker."""
        pace = seconds / max(1, size)
        before = self.usual(kind)
        self._seen.setdefault(kind, deque(maxlen=KEPT)).append(pace)
        self._usual.pop(kind, None)
        if before is not None and before > 0:
            own = self._own.get(worker, 1.0)
            self._own[worker] = own + OWN_WEIGHT * (pace / before - own)

    def saw_at_least(self, worker: str, kind: WorkKind, size: int, seconds: float) -> None:
        """Remember that a work took longer than this at a worker: it was told to drop it then."""
        usual, own = self.usual(kind), self._own.get(worker, 1.0)
        pace = seconds / max(1, size)
        if usual and pace / usual > own:
            self._own[worker] = own + OWN_WEIGHT * (pace / usual - own)

    def usual(self, kind: WorkKind) -> float | None:
        """Seconds that a work of this kind usually takes for one of its size; None before the first one."""
        if kind not in self._usual and kind in self._seen:
            self._usual[kind] = statistics.median(self._seen[kind])
        return self._usual.get(kind)

    def slowness(self, worker: str) -> float:
        """How many times the usual time a worker takes; 1 for all but slow ones."""
        own = self._own.get(worker, 1.0)
        return own if own > ORDINARY else 1.0

    def forget(self, worker: str) -> None:
        """Forget what is known of a worker: who comes by its name later is another."""
        self._own.pop(worker, None)

    @property
    def by_worker(self) -> Mapping[str, float]:
        """The pace of each worker that has been seen, as a multiple of the usual one."""
        return self._own
