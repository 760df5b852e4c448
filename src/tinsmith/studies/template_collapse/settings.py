"""What `tinsmith run template_collapse` is asked for: with and without what makes templates, and the filter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.task_study import Size, Sizes, TaskArm, size_of, sized_keys, task_study
from tinsmith.studies.template_collapse.task import reasons_source

NAME: Final = "template_collapse"
QUESTION: Final = "Do answers stop depending on what was asked while they vary as before, and does a filter prevent it?"

PLAIN, BONUS, FILTERED = "plain", "bonus", "filtered"
STOPPED, SHUFFLED = "stopped", "shuffled"
ENTROPY_BONUS: Final = "0.2"

_RATES: Final = MappingProxyType({Size.SMALLEST: 2e-3, Size.NANO: 2e-3, Size.SMALL: 3e-4})
_COLLAPSE: Final = MappingProxyType({"entropy_bonus": ENTROPY_BONUS, "zero_variance_filter": "false"})


def _arm(name: str, words: str, keys: Mapping[str, str]) -> TaskArm:
    return TaskArm(name=name, words=words, rates=_RATES, keys=keys)


_ARMS: Final = (
    _arm(PLAIN, "RL", {}),
    _arm(BONUS, "RL, entropy bonus", _COLLAPSE),
    _arm(FILTERED, "bonus, groups filtered", {**_COLLAPSE, "snr_filter": "0.9"}),
    _arm(STOPPED, "bonus, stopped early", {**_COLLAPSE, "early_stop": "true"}),
    _arm(SHUFFLED, "RL, shuffled labels", {"shuffle_labels": "true"}),
)

_SAME_ITEMS: Final = MappingProxyType({"split_seed": "0", "save_every": "0"})
"""Every run of the study holds out the same items, and ends before it would be worth saving."""

SIZES: Final[Sizes] = MappingProxyType(
    {
        Size.SMALLEST: {
            "seeds": "1",
            "base_steps": "120",
            "steps": "6",
            "eval_every": "3",
            "eval_items": "16",
            "eval_samples": "1",
            **_SAME_ITEMS,
            "watch": "mutual_information",
        },
        Size.NANO: {
            "steps": "40",
            "eval_every": "20",
            "eval_items": "64",
            "eval_samples": "1",
            **_SAME_ITEMS,
            "watch": "mutual_information",
        },
        Size.SMALL: {
            "at": "small",
            "seeds": "1",
            "steps": "72",
            "eval_every": "24",
            "eval_items": "32",
            "eval_samples": "2",
            **_SAME_ITEMS,
            "watch": "mutual_information",
            "watch_forgetting": "false",
            "sft_steps": "24",
            "sft_learning_rate": "3e-4",
        },
    }
)
"""Nano: on seed 0, which is not reported, a bonus of 0.2 collapses after some twenty steps, one of 0.15 or 0.12 after
thirty, with hardly a right answer left; one of 0.1 or 0.05, or 0.2 with a penalty of 0.1 or 0.2 on the KL to the
base, does not within as many as here. At `at=small` the first steps of a run teach the form of an answer by example, as
no base of its own did."""

KEYS: Final = sized_keys(NAME, (), ("base_steps",))


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseSettings:
    """What is run."""

    study: Study
    size: Size
    groups_per_batch: int


def collapse_settings(given: Mapping[str, str]) -> CollapseSettings:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    study = task_study(
        Study(name=NAME, question=QUESTION, arms=(), shared={}), reasons_source("", given), _ARMS, SIZES, KEYS, given
    )
    return CollapseSettings(study=study, size=size_of(given), groups_per_batch=int(given.get("groups_per_batch", "8")))
