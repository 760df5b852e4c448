"""What the study of SFT against RL is told: its world, rates and seeds, and what all of its runs have in common.

Equal base, papers, rank and effort: SFT takes as many steps as RL with as many papers in each, which are the same
ones; every trained arm tries as many learning rates, on a seed that is not reported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.experiments.key_text import truth
from tinsmith.experiments.keys import KEYS, At, Kind
from tinsmith.experiments.number_lists import count, learning_rates, seeds_apart
from tinsmith.experiments.sft_vs_rl_keys import PLACES, REWARD, SFT_VS_RL_KEYS, StudyWorld
from tinsmith.experiments.study_keys import require_a_score
from tinsmith.types.errors import ConfigError

LOOKS: Final = 3
"""Examinations on the validation split in a run, beside that of its end; as many in every arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftVsRlSettings:
    """See the module."""

    out: Path
    at: At
    world: StudyWorld
    data: Path | None
    model_name: str | None
    """A folder; None: the nano base of these papers, or the model of `at=small`."""
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
    SFT_VS_RL_KEYS.require(overrides)
    require_a_score(overrides)
    data = overrides.get("data")
    world = _world(overrides.get("world"), data)
    at = _at(overrides.get("at", SFT_VS_RL_KEYS.default("at")))
    place = PLACES[at][world]
    sft_rates = learning_rates("sft_rates", overrides.get("sft_rates", place.sft_rates))
    rl_rates = learning_rates("rl_rates", overrides.get("rl_rates", place.rl_rates))
    if len(sft_rates) != len(rl_rates):
        raise ConfigError(
            "SFT and RL must try equally many learning rates",
            field="rl_rates",
            value=len(rl_rates),
            allowed=f"{len(sft_rates)}, as sft_rates has",
        )
    seeds, tuning_seed = seeds_apart(
        SFT_VS_RL_KEYS.value(overrides, "seeds"), SFT_VS_RL_KEYS.value(overrides, "tuning_seed")
    )
    steps = count("steps", overrides.get("steps", str(place.steps)), 2)
    given = {**place.shared, **SFT_VS_RL_KEYS.runs_keys(overrides), "quiet": "true"}
    return SftVsRlSettings(
        out=Path(SFT_VS_RL_KEYS.value(overrides, "out")),
        at=at,
        world=world,
        data=None if data is None else Path(data),
        model_name=overrides.get("model_name"),
        seeds=seeds,
        tuning_seed=tuning_seed,
        sft_rates=sft_rates,
        rl_rates=rl_rates,
        steps=steps,
        sft_steps=_sft_steps(overrides.get("sft_steps", str(steps // 2)), steps),
        groups_per_batch=count(
            "groups_per_batch", overrides.get("groups_per_batch", str(place.groups_per_batch)), 1
        ),
        group_size=count("group_size", overrides.get("group_size", str(place.group_size)), 2),
        dry_run=truth("dry_run", SFT_VS_RL_KEYS.value(overrides, "dry_run")),
        shared=MappingProxyType(
            {key: value for key, value in given.items() if not key.startswith(REWARD)}
        ),
        rewarded=MappingProxyType(
            {key: value for key, value in given.items() if key.startswith(REWARD)}
        ),
    )


def _world(named: str | None, data: str | None) -> StudyWorld:
    if named is None:
        return StudyWorld.QUICKSTART if data is None else StudyWorld.DATA
    allowed = (StudyWorld.PLANTED.value, StudyWorld.QUICKSTART.value)
    if named not in allowed or data is not None:
        raise ConfigError(
            "give a world's name, or data=FOLDER of a slice",
            field="world",
            value=named,
            allowed=f"{', '.join(allowed)}; or data=DIR without it",
        )
    return StudyWorld(named)


def _at(text: str) -> At:
    if text not in PLACES:
        raise ConfigError(
            "the study has no settings for such a model",
            field="at",
            value=text,
            allowed=", ".join(PLACES),
        )
    return At(text)


def _sft_steps(text: str, steps: int) -> int:
    found = count("sft_steps", text, 1)
    if found >= steps:
        raise ConfigError(
            "no step is left for RL", field="sft_steps", value=found, allowed=f"1 to {steps - 1}"
        )
    return found
