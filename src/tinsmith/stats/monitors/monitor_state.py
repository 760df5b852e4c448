"""What a collapse monitor is told at an evaluation, and what it must remember from one to the next."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tinsmith.stats.confusion import Confusion
from tinsmith.stats.groups import LabelGroups
from tinsmith.stats.intervals import Interval
from tinsmith.stats.monitors.alarms import Alarm
from tinsmith.types.errors import CheckpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What one evaluation says; None for what was not measured."""

    step: int
    confusion: Confusion
    balanced_accuracy: Interval | None = None
    label_information: float | None = None
    """Nats, from the papers' exact label distributions."""
    train_reward: float | None = None
    """Mean total reward of the training rollouts since the last evaluation."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best macro-F1 so far, and the training reward at that evaluation."""

    step: int
    macro_f1: float
    train_reward: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorState:
    """All that a resumed run must know; frozen and made of numbers, strings and tuples."""

    share_streaks: tuple[int, ...]
    """Per label, evaluations running above the largest share."""
    steps: tuple[tuple[LabelGroups, ...], ...] = ()
    """Per step of the window, the groups of each label."""
    best: Best | None = None
    goodhart_streak: int = 0
    active: tuple[str, ...] = ()
    """Keys of the alarms whose condition holds."""
    alarms: tuple[Alarm, ...] = ()

    def as_json(self) -> object:
        """Return it as what `json` writes."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, value: object) -> MonitorState:
        """Read what `as_json` gave."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise CheckpointError(f"this is not the state of a collapse monitor: {error}") from None
