"""How far a run has come, and how long it will still take if its steps go on taking what they took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.live.progress import duration

_RECENT: Final = 20
"""Steps whose median a step is taken to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stands after a step."""

    step: int
    """The step that was just recorded."""
    steps: int
    seconds_left: float
    """Of training; evaluations come on top."""

    @classmethod
    def of(cls, step: int, steps: int, seconds: Sequence[float]) -> Standing:
        """Return where a run stands whose steps so far took these seconds, in order."""
        recent = sorted(seconds[-_RECENT:])
        a_step = recent[len(recent) // 2] if recent else 0.0
        return cls(step=step, steps=steps, seconds_left=a_step * max(0, steps - step))

    @property
    def left(self) -> str:
        """How long it will still take, in words."""
        return f"{duration(self.seconds_left)} left"
