"""Which keys a study of learning has, and which keys of a run it passes on to its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.cluster_keys import CLUSTER_KEYS
from tinsmith.lab.study.keys import DRY_RUN, TUNING_SEED, StudyKey, StudyKeys
from tinsmith.lab.study.task_study import GENERATOR
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.types.errors import ConfigError

QUESTION: Final = "What do supervised training, RL, and one after the other teach of a task, at equal effort?"
REWARD: Final = "reward"
"""The score that every task has."""


class ArmName(StrEnum):
    """How a model is trained, if at all."""

    ZERO_SHOT = "zero_shot"
    SFT = "sft"
    RL = "rl"
    SFT_THEN_RL = "sft_then_rl"
    SHUFFLED = "shuffled"
    SHUFFLED_SFT = "shuffled_sft"
    SHUFFLED_SFT_THEN_RL = "shuffled_sft_then_rl"


WORDS: Final[Mapping[ArmName, str]] = MappingProxyType(
    {
        ArmName.ZERO_SHOT: "zero-shot",
        ArmName.SFT: "SFT",
        ArmName.RL: "RL",
        ArmName.SFT_THEN_RL: "SFT then RL",
        ArmName.SHUFFLED: "RL, shuffled labels",
        ArmName.SHUFFLED_SFT: "SFT, shuffled labels",
        ArmName.SHUFFLED_SFT_THEN_RL: "SFT then RL, shuffled labels",
    }
)
"""In the order of the page."""

CONTROLS: Final[Mapping[ArmName, ArmName]] = MappingProxyType(
    {ArmName.SFT: ArmName.SHUFFLED_SFT, ArmName.RL: ArmName.SHUFFLED, ArmName.SFT_THEN_RL: ArmName.SHUFFLED_SFT_THEN_RL}
)
"""Of each way to train, the same way on shuffled labels."""

TRAINED: Final = tuple(CONTROLS)

_SET: Final = frozenset(
    [
        "kind",
        "learning_rate",
        "seed",
        "eval_every",
        "save_every",
        "sft_steps",
        "sft_learning_rate",
        "sft_batch_size",
        "train_items",
        "examined",
        "shuffle_labels",
        "base_url",
        "log_path",
        "stop_after",
        "behavior_if_log_dir_exists",
        "quiet",
    ]
)
"""Keys of a run that the study sets itself, or that would make its arms unequal."""

RL_KEYS: Final = TASK_KINDS[Kind.TASK].keys.known - TASK_KINDS[Kind.TASK_SFT].keys.known - _SET
"""Keys of RL alone, for every run that has a reward."""
_SHARED: Final = TASK_KINDS[Kind.TASK].keys.known & TASK_KINDS[Kind.TASK_SFT].keys.known

_KEYS: Final = StudyKeys(
    own=(
        StudyKey("task", "", "What is learned: FILE.py, or a task that is kept (reasoning_gym)."),
        GENERATOR,
        StudyKey("out", "", "The study's folder; else runs/study-learning-TASK[-GENERATOR]."),
        StudyKey(
            "arms", "zero_shot,sft,rl,sft_then_rl,shuffled", f"Of {', '.join(ArmName)}; without right answers RL's."
        ),
        StudyKey("score", REWARD, "What is claimed on: reward, or one of the task's metrics."),
        StudyKey("seeds", "1,2,3", "That are reported."),
        TUNING_SEED,
        StudyKey("steps", "those of the task, where it runs", "Of RL."),
        StudyKey("groups_per_batch", "those of the task", "Items in a step of RL."),
        StudyKey(
            "batch_size",
            "groups_per_batch",
            "Items in a supervised step; SFT takes as many steps as it needs to see as many items.",
        ),
        StudyKey("sft_rates", "the task's", "Learning rates of supervised steps; several: tried."),
        StudyKey("rl_rates", "the task's", "Learning rates of RL; several are tried, one chosen."),
        StudyKey("looks", "4", "Evaluations in a run after the first."),
        StudyKey("sizes", "", "Train on so many items too, each arm with each number: 200,800."),
        DRY_RUN,
        *CLUSTER_KEYS,
    ),
    passed_on=(_SHARED | RL_KEYS) - _SET,
    set_by_study=_SET,
    instead="arms, seeds, steps, groups_per_batch, batch_size, sft_rates, rl_rates, sizes and looks",
    more="The task's own keys are the study's too, and any key that SFT and RL share is one of every run.",
)


def learning_keys(presets: Mapping[str, str], own: Sequence[OwnKey] = ()) -> StudyKeys:
    """Return the keys of a study with other defaults for some, and with the own keys of its task.

    Raises:
        ConfigError: the task has a key of the study's name.
    """
    names = {key.name for key in _KEYS.own}
    told = [key.name for key in own if key.name in names and key.name != "task"]
    if told:
        raise ConfigError(
            "the study has a key of this name, and cannot tell it from the task's",
            field=told[0],
            fix="give the argument of task() another name",
        )
    changed = tuple(
        replace(key, default=presets.get(key.name, key.default)) if key.name in presets else key for key in _KEYS.own
    )
    return replace(_KEYS, own=changed, passed_on=_KEYS.passed_on | {key.name for key in own})
