"""What `tinsmith run dead_groups` is asked for: two ways to fail, remedies for the one that RL cannot mend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.task_study import Size, Sizes, TaskArm, size_of, sized_keys, task_study
from tinsmith.studies.dead_groups.task import sandbagger_source

NAME: Final = "dead_groups"
QUESTION: Final = "Can RL mend a model that fails, where it always fails at the same questions, and where by chance?"

ALWAYS, CHANCE, HOTTER = "always", "chance", "hotter"
FORCED, EXAMPLES, SHUFFLED = "forced", "examples", "shuffled"
REMEDIES: Final = (HOTTER, FORCED, EXAMPLES)
EXAMPLE_STEPS: Final = 8
"""Supervised steps of that remedy, and the items in each, as many as in a step of RL."""

_RATES: Final = MappingProxyType({Size.SMALLEST: 2e-3, Size.NANO: 2e-3, Size.SMALL: 3e-4})


def _arm(name: str, words: str, **keys: str) -> TaskArm:
    return TaskArm(name=name, words=words, rates=_RATES, keys=keys)


_ARMS: Final = (
    _arm(ALWAYS, "always fails", fails="always"),
    _arm(CHANCE, "fails by chance", fails="chance"),
    _arm(HOTTER, "always fails, temperature 3", fails="always", temperature="3.0"),
    _arm(FORCED, "always fails, options forced", fails="always", force_options="true"),
    _arm(
        EXAMPLES,
        f"always fails, {EXAMPLE_STEPS} steps by example",
        fails="always",
        sft_steps=str(EXAMPLE_STEPS),
        sft_batch_size="8",
        sft_learning_rate="2e-3",
    ),
    _arm(SHUFFLED, "by chance, shuffled labels", fails="chance", shuffle_labels="true"),
)
_SFT_ON_SMALL: Final = {"locked": "true", "sft_steps": "24", "sft_learning_rate": "3e-4"}

_SAME_ITEMS: Final = MappingProxyType({"split_seed": "0", "save_every": "0"})
"""Every run of the study holds out the same items, and ends before it would be worth saving."""

SIZES: Final[Sizes] = MappingProxyType(
    {
        Size.SMALLEST: {
            "seeds": "1",
            "base_steps": "120",
            "steps": "12",
            "eval_every": "12",
            "eval_items": "24",
            "eval_samples": "8",
            **_SAME_ITEMS,
        },
        Size.NANO: {"steps": "60", "eval_every": "20", "eval_samples": "8", **_SAME_ITEMS},
        Size.SMALL: {
            "at": "small",
            "seeds": "1",
            "steps": "40",
            "eval_every": "24",
            "eval_samples": "4",
            **_SAME_ITEMS,
            "watch_forgetting": "false",
            **_SFT_ON_SMALL,
        },
    }
)
"""At `at=small` the first steps of a run teach the model to fail, as no base of its own did."""

KEYS: Final = sized_keys(NAME, (), ("base_steps",))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadSettings:
    """What is run."""

    study: Study
    size: Size
    group_size: int


def dead_settings(given: Mapping[str, str]) -> DeadSettings:
    """Read `key=value`.

    Raises:
        ConfigError: a key that the study sets itself, or a value that cannot be read.
    """
    size = size_of(given)
    arms = [arm for arm in _ARMS if size is not Size.SMALL or arm.name not in (HOTTER, EXAMPLES)]
    study = task_study(
        Study(name=NAME, question=QUESTION, arms=(), shared={}), sandbagger_source("", given), arms, SIZES, KEYS, given
    )
    return DeadSettings(study=study, size=size, group_size=int(given.get("group_size", "8")))
