"""What `tinsmith run confidence` is asked for: GRPO on Countdown with and without a penalty on being sure early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.task_study import Size, Sizes, TaskArm, size_of, sized_keys, task_study
from tinsmith.studies.confidence.task import countdown_source

NAME: Final = "confidence"
QUESTION: Final = "Is a model sure of its answer before it has reasoned, and does a reward for rising confidence help?"

PLAIN, SHAPED, MIXED, NOISE = "plain", "shaped", "mixed", "noise"
ETA: Final = "1.0"
"""Of the penalty, as published."""

_RATES: Final = MappingProxyType({Size.SMALLEST: 1e-3, Size.NANO: 1e-3, Size.SMALL: 3e-4})
_PENALTY: Final = MappingProxyType({"confidence_penalty": ETA, "zero_variance_filter": "false"})


def _arm(name: str, words: str, keys: Mapping[str, str]) -> TaskArm:
    return TaskArm(name=name, words=words, rates=_RATES, keys=keys)


_ARMS: Final = (
    _arm(PLAIN, "GRPO", {}),
    _arm(SHAPED, "GRPO, shaped", _PENALTY),
    _arm(MIXED, "prefixes shuffled", {**_PENALTY, "confidence_prefixes": "shuffled"}),
    _arm(NOISE, "shuffled labels", {**_PENALTY, "shuffle_labels": "true"}),
)
_EVERY: Final = {"watch": "confidence", "save_every": "0"}

SIZES: Final[Sizes] = MappingProxyType(
    {
        Size.SMALLEST: {
            **_EVERY,
            "seeds": "1",
            "base_steps": "60",
            "groups_per_batch": "2",
            "steps": "2",
            "eval_every": "2",
            "eval_items": "16",
            "eval_samples": "1",
        },
        Size.NANO: {
            **_EVERY,
            "groups_per_batch": "8",
            "steps": "24",
            "eval_every": "12",
            "eval_items": "64",
            "eval_samples": "2",
        },
        Size.SMALL: {
            **_EVERY,
            "at": "small",
            "seeds": "1",
            "steps": "48",
            "eval_every": "24",
            "eval_items": "32",
            "eval_samples": "2",
            "watch_forgetting": "false",
            "as_base": "true",
            "sft_steps": "24",
            "sft_learning_rate": "3e-4",
        },
    }
)
"""Nano: on seed 0, which is not reported, every answer tries after 24 steps. At `at=small` the first steps of a run
teach both ways to answer by example, as no base of its own did."""

KEYS: Final = sized_keys(NAME, (), ("base_steps", "searches", "as_base"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceSettings:
    """What is run."""

    study: Study
    size: Size


def confidence_settings(given: Mapping[str, str]) -> ConfidenceSettings:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    study = task_study(
        Study(name=NAME, question=QUESTION, arms=(), shared={}), countdown_source("", given), _ARMS, SIZES, KEYS, given
    )
    return ConfidenceSettings(study=study, size=size_of(given))
