"""Settings of every worker of a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinsmith.types.arithmetic import Arithmetic, GradientUnit, Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """Settings common to all workers, except their threads."""

    models: Mapping[str, str]
    seed: int
    arithmetic: Arithmetic = Arithmetic.CANONICAL
    gradient_unit: GradientUnit = GradientUnit.TREE
    micro_batch: int = 0
    """Most gradient units computed at once; 0 means as many as memory allows."""
    hold: Hold = Hold.PUBLISHED
    """Storage format of a base's matrices in memory. Changes no bit."""
    shards: int = 1
    """Processes per worker: each holds a share of every base."""
