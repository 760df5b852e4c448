"""Seconds per unit of work: the usual pace, and the pace of each worker."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tinsmith.engine.cluster.items import Item, WorkKind

WINDOW: Final = 128
"""Latest works of each kind whose median is the usual pace."""
OWN_WEIGHT: Final = 0.5
"""Weight of the latest work in a worker's own pace."""
ORDINARY: Final = 1.5
"""Multiple of the usual pace up to which a worker is not slow: answer lengths vary by chance."""


@dataclass(slots=True)
class Paces:
    """Observed paces by kind of work, separately for works among others and for works computed alone."""

    _observed: dict[tuple[WorkKind, bool], deque[float]] = field(
        default_factory=dict[tuple[WorkKind, bool], deque[float]]
    )
    _usual: dict[tuple[WorkKind, bool], float] = field(default_factory=dict[tuple[WorkKind, bool], float])
    _own: dict[str, float] = field(default_factory=dict[str, float])

    def observe(self, worker: str, item: Item, seconds: float, *, alone: bool) -> None:
        """Record the seconds that a work took at a worker."""
        pace = seconds / max(1, item.size)
        before = self._median((item.kind, alone))
        self._observed.setdefault((item.kind, alone), deque(maxlen=WINDOW)).append(pace)
        self._usual.pop((item.kind, alone), None)
        if before is not None and before > 0:
            own = self._own.get(worker, 1.0)
            self._own[worker] = own + OWN_WEIGHT * (pace / before - own)

    def observe_at_least(self, worker: str, item: Item, seconds: float, *, alone: bool) -> None:
        """Record a lower bound of the seconds of a work that was dropped before its end."""
        usual, own = self.usual(item, alone=alone), self._own.get(worker, 1.0)
        if usual and seconds / usual > own:
            self._own[worker] = own + OWN_WEIGHT * (seconds / usual - own)

    def usual(self, item: Item, *, alone: bool = False) -> float | None:
        """Seconds that a work usually takes; None before the first one of its kind.

        Before any work of a kind was computed alone, the time among others is used for both.
        """
        median = self._median((item.kind, alone))
        if median is None and alone:
            median = self._median((item.kind, False))
        return None if median is None else median * max(1, item.size)

    def slowness(self, worker: str) -> float:
        """Return the multiple of the usual time that a worker takes; 1 for ordinary workers."""
        own = self._own.get(worker, 1.0)
        return own if own > ORDINARY else 1.0

    def knows(self, worker: str) -> bool:
        """True if the pace of a worker is known."""
        return worker in self._own

    def forget(self, worker: str) -> None:
        """Discard the pace of a worker: a later worker of the same name is another one."""
        self._own.pop(worker, None)

    @property
    def by_worker(self) -> Mapping[str, float]:
        """Pace of each observed worker, as a multiple of the usual one."""
        return self._own

    def _median(self, key: tuple[WorkKind, bool]) -> float | None:
        if key not in self._usual and key in self._observed:
            self._usual[key] = statistics.median(self._observed[key])
        return self._usual.get(key)
