"""What the study of SFT against RL is told: its world, rates and seeds, and what all of its runs have in common.

Equal base, papers, rank and effort: SFT takes as many steps as RL with as many papers in each, which are the same
ones; every trained arm tries as many learning rates, on a seed that is not reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.experiments.keys import KEYS, Kind
from tinsmith.experiments.number_lists import numbers, seeds_apart
from tinsmith.types.errors import ConfigError


class StudyWorld(StrEnum):
    """On which papers."""

    PLANTED = "planted"
    """Their best possible scores are known."""
    QUICKSTART = "quickstart"
    """The synthetic world of experiments that are given no papers."""
    DATA = "data"
    """A slice folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The numbers of a world."""

    steps: int
    groups_per_batch: int
    group_size: int
    sft_rates: str
    rl_rates: str
    shared: Mapping[str, str]


_PAPERS: Final = _Place(
    steps=100,
    groups_per_batch=16,
    group_size=8,
    sft_rates="5e-4,1e-3,2e-3,4e-3,8e-3",
    rl_rates="5e-4,1e-3,1.5e-3,2e-3,3e-3",
    shared=MappingProxyType({"lora_rank": "16", "eval_items": "200"}),
)
_PLACES: Final[Mapping[StudyWorld, _Place]] = MappingProxyType(
    {
        StudyWorld.QUICKSTART: _PAPERS,
        StudyWorld.DATA: _PAPERS,
        StudyWorld.PLANTED: _Place(
            steps=60,
            groups_per_batch=32,
            group_size=4,
            sft_rates="5e-4,1e-3,2e-3,4e-3,8e-3",
            rl_rates="1e-3,2e-3,3e-3,4e-3,6e-3",
            shared=MappingProxyType(
                {
                    "lora_rank": "16",
                    "eval_items": "120",
                    "max_tokens": "32",
                    "with_metadata": "false",
                }
            ),
        ),
    }
)

LOOKS: Final = 3
"""Examinations on the validation split in a run, beside that of its end; as many in every arm."""
_REWARD: Final = "reward."
_OWN: Final = (
    "learning_rate",
    "seed",
    "batch_size",
    "eval_every",
    "save_every",
    "sft_learning_rate",
    "sft_batch_size",
    "shuffle_labels",
    "logit_offset",
    "base_url",
    "at",
    "kind",
    "task",
    "prompt",
    "contract",
    "reward",
    "behavior_if_log_dir_exists",
)
"""Keys of a run that the study sets itself, or that would make its arms unequal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftVsRlSettings:
    """See the module."""

    out: Path
    world: StudyWorld
    data: Path | None
    model_name: str | None
    """A folder; None: the nano base of these papers."""
    seeds: tuple[int, ...]
    tuning_seed: int
    sft_rates: tuple[float, ...]
    rl_rates: tuple[float, ...]
    steps: int
    """Of RL and of SFT."""
    sft_steps: int
    """Of SFT then RL: so many of its steps, the first ones, are supervised."""
    groups_per_batch: int
    """Papers a step, for SFT as well."""
    group_size: int
    dry_run: bool
    shared: Mapping[str, str]
    """Keys of every run."""
    rewarded: Mapping[str, str]
    """Keys of a reward, for every run that has one."""

    @property
    def every(self) -> int:
        """Steps between two examinations."""
        return max(1, math.ceil(self.steps / LOOKS))

    def told(self) -> dict[str, object]:
        """Return what decides the study's results, but for papers and base."""
        aside = KEYS[Kind.RL].circumstances
        return {
            "world": self.world.value,
            "steps": self.steps,
            "sft_steps": self.sft_steps,
            "groups_per_batch": self.groups_per_batch,
            "group_size": self.group_size,
            "sft_rates": list(self.sft_rates),
            "rl_rates": list(self.rl_rates),
            **self.rewarded,
            **{key: value for key, value in self.shared.items() if key not in aside},
        }


def sft_vs_rl_settings(overrides: Mapping[str, str]) -> SftVsRlSettings:
    """Read `key=value`: the study's own keys, and any key that SFT and RL share, for all of its runs.

    Raises:
        ConfigError: a key that the study sets itself, rates or seeds that do not do, or a value that cannot be read.
    """
    left = dict(overrides)
    for key in _OWN:
        if key in left:
            raise ConfigError(
                "the study sets this itself, run by run",
                field=key,
                value=left[key],
                fix="seeds, sft_rates, rl_rates, steps and groups_per_batch are its own",
            )
    data = left.pop("data", None)
    world = _world(left.pop("world", None), data)
    place = _PLACES[world]
    sft_rates = _rates("sft_rates", left.pop("sft_rates", place.sft_rates))
    rl_rates = _rates("rl_rates", left.pop("rl_rates", place.rl_rates))
    if len(sft_rates) != len(rl_rates):
        raise ConfigError(
            "both get as many tries",
            field="rl_rates",
            value=len(rl_rates),
            allowed=f"{len(sft_rates)}, as sft_rates has",
        )
    seeds, tuning_seed = seeds_apart(left.pop("seeds", "1,2,3,4,5"), left.pop("tuning_seed", "0"))
    steps = _count("steps", left.pop("steps", str(place.steps)), 2)
    given = {**place.shared, **left, "quiet": "true"}
    for key in ("out", "log_path", "model_name", "dry_run", "sft_steps", *_COUNTS):
        given.pop(key, None)
    return SftVsRlSettings(
        out=Path(left.get("out", left.get("log_path", "runs/study-sft_vs_rl"))),
        world=world,
        data=None if data is None else Path(data),
        model_name=left.get("model_name"),
        seeds=seeds,
        tuning_seed=tuning_seed,
        sft_rates=sft_rates,
        rl_rates=rl_rates,
        steps=steps,
        sft_steps=_sft_steps(left.get("sft_steps", str(steps // 2)), steps),
        groups_per_batch=_count(
            "groups_per_batch", left.get("groups_per_batch", str(place.groups_per_batch)), 1
        ),
        group_size=_count("group_size", left.get("group_size", str(place.group_size)), 2),
        dry_run=left.get("dry_run", "false").lower() in ("true", "1", "yes"),
        shared=MappingProxyType(
            {key: value for key, value in given.items() if not key.startswith(_REWARD)}
        ),
        rewarded=MappingProxyType(
            {key: value for key, value in given.items() if key.startswith(_REWARD)}
        ),
    )


_COUNTS: Final = ("groups_per_batch", "group_size")


def _world(named: str | None, data: str | None) -> StudyWorld:
    if named is None:
        return StudyWorld.QUICKSTART if data is None else StudyWorld.DATA
    allowed = (StudyWorld.PLANTED.value, StudyWorld.QUICKSTART.value)
    if named not in allowed or data is not None:
        raise ConfigError(
            "a world by its name, or a slice by its folder",
            field="world",
            value=named,
            allowed=f"{', '.join(allowed)}; or data=DIR without it",
        )
    return StudyWorld(named)


def _sft_steps(text: str, steps: int) -> int:
    found = _count("sft_steps", text, 1)
    if found >= steps:
        raise ConfigError(
            "nothing is left for RL", field="sft_steps", value=found, allowed=f"1 to {steps - 1}"
        )
    return found


def _rates(key: str, text: str) -> tuple[float, ...]:
    found = sorted(numbers(key, text, float))
    rising = all(low < high for low, high in pairwise(found))
    if not rising or not all(0 < one < math.inf for one in found):
        raise ConfigError(
            "learning rates to choose from",
            field=key,
            value=text,
            allowed="one or more different ones, above 0, with commas between them; five make a claim",
        )
    return tuple(found)


def _count(key: str, text: str, least: int) -> int:
    found = numbers(key, text, int)
    if len(found) != 1 or found[0] < least:
        raise ConfigError("this is too few", field=key, value=text, allowed=f"{least} or more")
    return found[0]
