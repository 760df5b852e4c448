"""Sampling sessions in memory, and their groups in the engine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from tinsmith.engine.sequences import Group
from tinsmith.server.database.records import SamplingSession
from tinsmith.server.lanes import Lane
from tinsmith.server.weights import Loaded

GroupDone = Callable[[Group], None]
"""Callback on the compute thread: it copies the group's data, and forwards it."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Group in the engine, and its callbacks."""

    group: Group
    name: str
    """Name of the served base model."""
    ended: GroupDone
    drawn: GroupDone | None


@dataclass(slots=True)
class LiveSampler:
    """Sampling session in memory."""

    record: SamplingSession
    name: str
    source: str | Future[Loaded | None]
    """Id of the session that holds its weights, replaced on the compute thread if it follows a model; or a base's
    weights; or None if its own id holds them."""
    lanes: dict[int, Lane] = field(default_factory=dict[int, Lane])

    @property
    def num_copies(self) -> int:
        """Number of client copies that have sent a request."""
        return len(self.lanes.keys() - {0})
