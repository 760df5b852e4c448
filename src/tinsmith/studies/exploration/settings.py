"""What a study of interleaved exploration is asked for: ratios, the control, and settings by size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tinsmith.lab.interleave import NONE as NO_RATIO
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.task_study import Size, Sizes, TaskArm, sized_keys, task_study
from tinsmith.studies.exploration.source import HELD_OUT, KEYS, Pays, house_task
from tinsmith.studies.exploration.world import Kind

STUDY: Final = "exploration"
QUESTION: Final = "Does exploration between batches of a task teach an agent its surroundings, at no cost to the task?"
NONE: Final = "none"
ADVISED: Final = "5-1"
"""The published ratio."""
CONTROL: Final = "chance"
_RATIO: Final = "5:1"

_RATES: Final = MappingProxyType({Size.SMALLEST: 6e-4, Size.NANO: 6e-4, Size.SMALL: 3e-4})


def _arm(name: str, words: str, ratio: str, pays: Pays = Pays.COVERAGE) -> TaskArm:
    return TaskArm(name=name, words=words, rates=_RATES, keys={"interleave": ratio, "pays": pays.value})


ARMS: Final = (
    _arm(NONE, "task alone", NO_RATIO),
    *(_arm(ratio.replace(":", "-"), f"explores {ratio}", ratio) for ratio in ("10:1", _RATIO, "2:1", "1:1")),
    _arm(CONTROL, "5:1, paid by chance", _RATIO, Pays.CHANCE),
)
"""The ratios of task to exploration, and the control: exploration that is paid whatever is seen."""
RATIOS: Final = tuple(arm.name for arm in ARMS if arm.name not in (NONE, CONTROL))

# Coverage differs less within a group than success does: advantages in deviations weigh both kinds of batch alike.
_EVERY: Final = {"save_every": "0", "advantage": "std", "eval_items": str(HELD_OUT * len(Kind))}
SIZES: Final[Sizes] = MappingProxyType(
    {
        Size.SMALLEST: {
            **_EVERY,
            "eval_items": "24",
            "steps": "12",
            "group_size": "4",
            "groups_per_batch": "2",
            "eval_every": "12",
            "eval_samples": "1",
            "base_steps": "200",
            "seeds": "1",
        },
        Size.NANO: {
            **_EVERY,
            "steps": "66",
            "group_size": "8",
            "groups_per_batch": "4",
            "eval_every": "66",
            "eval_samples": "2",
        },
        Size.SMALL: {
            **_EVERY,
            "steps": "22",
            "group_size": "8",
            "groups_per_batch": "4",
            "eval_every": "22",
            "eval_samples": "1",
            "max_tokens": "12",
            "explain": "true",
            "watch_forgetting": "false",
            "seeds": "1",
        },
    }
)
"""66 steps hold whole rounds of every ratio, 12 of all but 10:1. All arms take as many: what explores has less task."""


_SIZED: Final = sized_keys(STUDY, (), [key.name for key in KEYS if key.name != "pays"])
STUDY_KEYS: Final = replace(
    _SIZED, passed_on=_SIZED.passed_on - {"interleave"}, set_by_study=_SIZED.set_by_study | {"interleave", "pays"}
)


def exploration_study(given: Mapping[str, str]) -> Study:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    study = Study(name=STUDY, question=QUESTION, arms=(), shared={})
    return task_study(study, house_task("", {}), ARMS, SIZES, STUDY_KEYS, given)
