"""The keys of a run on a task of the user's own that are no loop's settings."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.runs.kinds import Kind
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFrame(RunFrame):
    """See the module."""

    kind: Kind = Kind.TASK
    eval_samples: int = 4
    """Answers to each held-out item in a sampled evaluation."""

    def __post_init__(self) -> None:
        if self.eval_samples < 1:
            raise ConfigError(
                "an evaluation needs at least one response",
                field="eval_samples",
                value=self.eval_samples,
                allowed="1 or more",
            )
