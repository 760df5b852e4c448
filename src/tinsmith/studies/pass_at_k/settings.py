"""What a study of pass@k is asked for: its arms, and what all of its runs have in common, by size."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.task_study import Size, TaskArm, sized_keys, task_study
from tinsmith.studies.pass_at_k.source import KEYS, Pays, lookup_task

STUDY: Final = "pass_at_k"
QUESTION: Final = "Does RL make a model solve questions that its base never solves, however often it is asked?"
BASE: Final = "base"
SFT: Final = "sft"
GRPO: Final = "grpo"
COIN: Final = "coin"

_BY_EXAMPLE: Final = {"kind": Kind.TASK_SFT.value}

ARMS: Final = (
    TaskArm(name=BASE, words="base", keys={**_BY_EXAMPLE, "steps": "0"}),
    TaskArm(name=SFT, words="SFT", rates={Size.SMALLEST: 2e-3, Size.NANO: 2e-3, Size.SMALL: 3e-4}, keys=_BY_EXAMPLE),
    TaskArm(name=GRPO, words="GRPO", rates={Size.SMALLEST: 6e-4, Size.NANO: 6e-4, Size.SMALL: 3e-4}),
    TaskArm(
        name=COIN,
        words="GRPO, paid by a coin",
        rates={Size.SMALLEST: 6e-4, Size.NANO: 6e-4, Size.SMALL: 3e-4},
        keys={"pays": Pays.COIN.value},
    ),
)
"""The base, two ways to train it on the same questions, and the control of the second. The learning rates are those
that every task has where none are said."""

_EVERY: Final = {"eval_every": "0", "save_every": "0"}
SIZES: Final[Mapping[Size, Mapping[str, str]]] = MappingProxyType(
    {
        Size.SMALLEST: {
            **_EVERY,
            "steps": "8",
            "group_size": "8",
            "groups_per_batch": "4",
            "held_out_items": "12",
            "eval_samples": "16",
            "base_steps": "500",
            "seeds": "1",
        },
        Size.NANO: {
            **_EVERY,
            "steps": "60",
            "group_size": "8",
            "groups_per_batch": "8",
            "held_out_items": "40",
            "eval_samples": "64",
        },
        Size.SMALL: {
            **_EVERY,
            "steps": "20",
            "group_size": "8",
            "groups_per_batch": "4",
            "held_out_items": "12",
            "eval_samples": "16",
            "max_tokens": "12",
            "explain": "true",
            "watch_forgetting": "false",
            "seeds": "1",
        },
    }
)
"""The settings of nano were chosen on seed 0, which is not reported."""

STUDY_KEYS: Final = sized_keys(STUDY, (), [key.name for key in KEYS if key.name != "pays"])


def pass_at_k_study(given: Mapping[str, str]) -> Study:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    study = Study(name=STUDY, question=QUESTION, arms=(), shared={})
    source = lookup_task("", {})
    return task_study(study, source, ARMS, SIZES, STUDY_KEYS, given)
