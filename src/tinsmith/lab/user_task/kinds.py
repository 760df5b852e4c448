"""How a task of the user's own is trained, by reinforcement or by example: its keys, and what these are where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import KindEntry
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.experiment.keys import Keys
from tinsmith.lab.experiment.places import OPTIONS, SMALL_MODEL, WITHOUT_LABELS, WITHOUT_SLICE
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.judge.settings import JudgeCalls
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings, SftSettings, SparseSettings
from tinsmith.lab.user_task.chosen_items import Examined
from tinsmith.types.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFrame(RunFrame):
    """The keys that are no loop's settings."""

    kind: Kind = Kind.TASK
    eval_samples: int = 4
    """Answers to each held-out item in a sampled evaluation."""
    watch_forgetting: bool = False
    """Whether fixed general texts are read at the end, by the trained model and by its base: what training cost."""
    examined: Examined = Examined.HELD_OUT
    """What is evaluated: held_out; or validation, a fifth of the training items, to choose settings by."""
    split_seed: int = -1
    """What a held-out share and a validation part are drawn from; below 0: from the run's seed."""
    shuffle_labels: bool = False
    """Whether each training item is rewarded and answered as another one is: a control, from which no answer can be
    learned."""

    def __post_init__(self) -> None:
        if self.eval_samples < 1:
            raise ConfigError(
                "an evaluation needs at least one response",
                field="eval_samples",
                value=self.eval_samples,
                allowed="1 or more",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedFrame(TaskFrame):
    """The keys of a task whose reward is a judge."""

    kind: Kind = Kind.RLVR
    judge_model: str = RULES
    """`rules`, a model of an OpenAI-compatible endpoint, a name or tinker:// path that base_url serves, or a folder."""
    judge_temperature: float = 0.0
    """Temperature at which the judge answers."""
    judge_max_tokens: int = 0
    """Most tokens in one answer of the judge; 0: as the endpoint decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking(JudgeCalls):
    """Settings of calls to a judge: circumstances of a task whose reward is a judge."""

    prices: Path | None = None
    """A table of prices, laid over the one that comes with the package."""


_EVERYWHERE: Final = {"lora_rank": 16, "eval_every": 20, "save_every": 20, "select_by": "last"}
_NANO: Final = {**_EVERYWHERE, "max_tokens": 32, "eval_items": 100}
_SMALL: Final = {
    **_EVERYWHERE,
    "model_name": SMALL_MODEL,
    "grad_clip_norm": 1.0,
    "max_tokens": 48,
    "eval_items": 50,
    "watch_forgetting": True,
}
_SEED: Final = {**_EVERYWHERE, "lora_rank": 32, "max_tokens": 512, "eval_items": 200, "watch_forgetting": True}
_GROUPS: Final = {"group_size": 8, "groups_per_batch": 8}

TASK_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.TASK: KindEntry(
            keys=Keys(TaskFrame, RlSettings, without=WITHOUT_LABELS),
            values={
                At.NANO: {**_NANO, **_GROUPS, "steps": 60, "learning_rate": 6e-4},
                At.SMALL: {**_SMALL, **_GROUPS, "steps": 40, "learning_rate": 3e-4},
                At.SEED: {**_SEED, "steps": 100, "learning_rate": 4e-5, "group_size": 8, "groups_per_batch": 32},
            },
        ),
        Kind.TASK_SPARSE: KindEntry(
            keys=Keys(TaskFrame, SparseSettings, without=WITHOUT_LABELS),
            values={
                At.NANO: {**_NANO, "steps": 150, "learning_rate": 1e-3, "batch_size": 16},
                At.SMALL: {**_SMALL, "steps": 150, "learning_rate": 1e-4, "batch_size": 8},
                At.SEED: {**_SEED, "steps": 150, "learning_rate": 1e-4, "batch_size": 8},
            },
        ),
        Kind.TASK_SFT: KindEntry(
            keys=Keys(TaskFrame, SftSettings, without=WITHOUT_LABELS),
            values={
                At.NANO: {**_NANO, "steps": 60, "learning_rate": 2e-3, "batch_size": 16},
                At.SMALL: {**_SMALL, "steps": 40, "learning_rate": 3e-4, "batch_size": 32},
                At.SEED: {**_SEED, "steps": 100, "learning_rate": 1e-4, "batch_size": 64},
            },
        ),
    }
)

TESTED_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        kind: replace(entry, keys=replace(entry.keys, without=WITHOUT_LABELS - {"test_items"}))
        for kind, entry in TASK_KINDS.items()
    }
)
"""The same for a task that has items to be tested on."""

JUDGED_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.RLVR: KindEntry(
            keys=Keys(JudgedFrame, RlSettings, Asking, without=WITHOUT_SLICE | OPTIONS),
            values=TASK_KINDS[Kind.TASK].values,
        )
    }
)
"""Ways to train on a task whose reward is a judge."""
