"""What a study of adapters is told: which adapters, rates and seeds, and what all of its runs have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.experiments.number_lists import numbers, seeds_apart
from tinsmith.experiments.study import Cell
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import ConfigError

RECIPE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "lora_rank": "64",
        "lr_schedule": "cosine",
        "lr_warmup": "0.03",
        "weight_decay": "0.1",
        "grad_clip_norm": "1.0",
    }
)
"""The seeds' settings for QDoRA that a nano base can have too, for every adapter; steps and batch stay the place's."""

RATES: Final = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
"""Learning rates that are tried for the nano base."""

FEWEST_RATES: Final = 5
"""With fewer one would compare how well each adapter was tuned."""

FEWEST_SEEDS: Final = 3

_ADAPTERS: Final = (AdapterKind.LORA, AdapterKind.DORA, AdapterKind.QLORA, AdapterKind.QDORA)
_RATES_OF: Final = "rates."
_OWN: Final = ("learning_rate", "seed", "adapter", "log_path", "behavior_if_log_dir_exists")
"""Keys of a run that the study sets itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterStudySettings:
    """See the module."""

    out: Path
    rates: Mapping[AdapterKind, tuple[float, ...]]
    """By adapter, in the study's order; LoRA first, which the others are compared with."""
    seeds: tuple[int, ...]
    tuning_seed: int
    """Of the runs by which rates are chosen; none of those that are reported."""
    dry_run: bool
    shared: Mapping[str, str]
    """Keys of every run."""

    @property
    def adapters(self) -> tuple[AdapterKind, ...]:
        """What is compared."""
        return tuple(self.rates)

    def cell(self, adapter: AdapterKind, rate: float, seed: int) -> Cell:
        """Return the run of an adapter with a rate and a seed."""
        changes = {**self.shared, "learning_rate": repr(rate), "seed": str(seed)}
        return Cell(
            name=f"sft/{adapter}",
            overrides=changes,
            folder=self.out / "cells" / f"{adapter}-rate={rate!r}-seed={seed}",
        )

    def tuning(self) -> list[Cell]:
        """Return the runs by which rates are chosen."""
        return [
            self.cell(adapter, rate, self.tuning_seed)
            for adapter in self.adapters
            for rate in self.rates[adapter]
        ]


def adapter_study_settings(overrides: Mapping[str, str]) -> AdapterStudySettings:
    """Read `key=value`: the study's own keys, and any key of supervised training for all of its runs.

    Raises:
        ConfigError: a key that the study sets itself, too few rates or seeds, or a value that cannot be read.
    """
    left = dict(overrides)
    out = Path(left.pop("out", left.pop("log_path", "runs/study-adapters")))
    adapters = _adapters(left.pop("adapters", ",".join(_ADAPTERS)))
    every = _rates("rates", left.pop("rates", ",".join(map(str, RATES))))
    rates = {
        adapter: _rates(key, left.pop(key)) if (key := f"{_RATES_OF}{adapter}") in left else every
        for adapter in adapters
    }
    seeds, tuning_seed = seeds_apart(
        left.pop("seeds", "1,2,3"), left.pop("tuning_seed", "0"), least=FEWEST_SEEDS
    )
    dry_run = left.pop("dry_run", "false").lower() in ("true", "1", "yes")
    if "rank" in left:
        left["lora_rank"] = left.pop("rank")
    for key in _OWN:
        if key in left:
            raise ConfigError(
                "the study sets this itself, run by run",
                field=key,
                value=left[key],
                allowed="rates, seeds, adapters and out instead",
            )
    return AdapterStudySettings(
        out=out,
        rates=MappingProxyType(rates),
        seeds=seeds,
        tuning_seed=tuning_seed,
        dry_run=dry_run,
        shared=MappingProxyType({**RECIPE, **left, "quiet": "true"}),
    )


def _adapters(text: str) -> tuple[AdapterKind, ...]:
    named = [name.strip() for name in text.split(",")]
    known = [kind.value for kind in _ADAPTERS]
    if AdapterKind.LORA.value not in named or len(named) < 2 or not set(named) <= set(known):
        raise ConfigError(
            "LoRA is compared with one or more of the others",
            field="adapters",
            value=text,
            allowed=", ".join(known),
        )
    return tuple(kind for kind in _ADAPTERS if kind.value in named)


def _rates(key: str, text: str) -> tuple[float, ...]:
    found = sorted(numbers(key, text, float))
    rising = all(low < high for low, high in pairwise(found))
    if len(found) < FEWEST_RATES or not rising or not all(0 < one < math.inf for one in found):
        raise ConfigError(
            "an adapter is as good as its learning rate",
            field=key,
            value=text,
            allowed=f"{FEWEST_RATES} or more different ones, above 0, with commas between them",
        )
    return tuple(found)
