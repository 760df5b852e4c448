"""How a task of the user's own is trained: its keys, and what these are where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import KindEntry
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.experiment.keys import Keys
from tinsmith.lab.experiment.places import SMALL_MODEL, WITHOUT_SLICE
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFrame(RunFrame):
    """The keys that are no loop's settings."""

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


_EVERYWHERE: Final = {
    "lora_rank": 16,
    "group_size": 8,
    "groups_per_batch": 8,
    "eval_every": 20,
    "save_every": 20,
    "select_by": "last",
}

TASK_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.TASK: KindEntry(
            keys=Keys(TaskFrame, RlSettings, without=WITHOUT_SLICE),
            values={
                At.NANO: {
                    **_EVERYWHERE,
                    "steps": 60,
                    "learning_rate": 6e-4,
                    "max_tokens": 32,
                    "eval_items": 100,
                },
                At.SMALL: {
                    **_EVERYWHERE,
                    "model_name": SMALL_MODEL,
                    "steps": 40,
                    "learning_rate": 3e-4,
                    "grad_clip_norm": 1.0,
                    "max_tokens": 48,
                    "eval_items": 50,
                },
                At.SEED: {
                    **_EVERYWHERE,
                    "steps": 100,
                    "learning_rate": 4e-5,
                    "lora_rank": 32,
                    "groups_per_batch": 32,
                    "max_tokens": 512,
                    "eval_items": 200,
                },
            },
        ),
    }
)
