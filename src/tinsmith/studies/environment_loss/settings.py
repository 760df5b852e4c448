"""What a study of the loss on the environment's answers is asked for: weights, the control, and settings by size."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.lab.settings import Watched
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.task_study import Size, TaskArm, sized_keys, task_study
from tinsmith.studies.environment_loss.source import KEYS, shell_task
from tinsmith.studies.environment_loss.world import Facts

STUDY: Final = "environment_loss"
QUESTION: Final = "Does a loss on what the environment answers make RL faster, and from which weight does it bore?"
WEIGHTS: Final = (0.0, 0.02, 0.05, 0.2)
NONE: Final = "lambda-0"
ADVISED: Final = "lambda-0.05"
"""The published weight."""
HIGH: Final = "lambda-0.2"
"""The one that is reported to bore."""
CONTROL: Final = "scrambled"

_RATES: Final = {Size.SMALLEST: 6e-4, Size.NANO: 6e-4, Size.SMALL: 3e-4}

ARMS: Final = (
    *(
        TaskArm(
            name=f"lambda-{weight:g}", words=f"lambda = {weight:g}", rates=_RATES, keys={"env_loss_coef": repr(weight)}
        )
        for weight in WEIGHTS
    ),
    TaskArm(
        name=CONTROL,
        words="0.05, scrambled",
        rates=_RATES,
        keys={"env_loss_coef": "0.05", "facts": Facts.SCRAMBLED.value},
    ),
)
"""The weights, and the control: a shell whose answers tell nothing that could be learned."""

_EVERY: Final = {"save_every": "0", "watch": Watched.ENVIRONMENT.value}
SIZES: Final[Mapping[Size, Mapping[str, str]]] = MappingProxyType(
    {
        Size.SMALLEST: {
            **_EVERY,
            "steps": "10",
            "group_size": "8",
            "groups_per_batch": "4",
            "eval_every": "10",
            "eval_items": "24",
            "eval_samples": "2",
            "base_steps": "300",
            "seeds": "1",
        },
        Size.NANO: {
            **_EVERY,
            "steps": "50",
            "group_size": "8",
            "groups_per_batch": "8",
            "eval_every": "50",
            "eval_items": "48",
            "eval_samples": "4",
        },
        Size.SMALL: {
            **_EVERY,
            "steps": "20",
            "group_size": "8",
            "groups_per_batch": "4",
            "eval_every": "20",
            "eval_items": "24",
            "eval_samples": "2",
            "max_tokens": "12",
            "explain": "true",
            "watch_forgetting": "false",
            "seeds": "1",
        },
    }
)
"""The settings of nano were chosen on seed 0, which is not reported."""

STUDY_KEYS: Final = sized_keys(STUDY, (), [key.name for key in KEYS if key.name != "facts"])


def environment_loss_study(given: Mapping[str, str]) -> Study:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    study = Study(name=STUDY, question=QUESTION, arms=(), shared={})
    return task_study(study, shell_task("", {}), ARMS, SIZES, STUDY_KEYS, given)
