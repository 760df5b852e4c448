"""What a study of adapters is told: which adapters, rates and seeds, and what all of its runs have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.experiments.cell import Cell
from tinsmith.experiments.key_help import shown_value
from tinsmith.experiments.key_text import truth
from tinsmith.experiments.keys import KEYS, At, Kind
from tinsmith.experiments.number_lists import count, learning_rates, seeds_apart
from tinsmith.experiments.places import NOTEBOOK
from tinsmith.experiments.study_keys import (
    DRY_RUN,
    TUNING_SEED,
    StudyKey,
    StudyKeys,
    require_a_score,
)
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import ConfigError

QUESTION: Final = "What do four bits and a trained magnitude cost and gain, each adapter at the rate that suits it?"

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
SMALL_RATES: Final = (1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3)
"""Those for a small pretrained model."""
_SMALL_RECIPE: Final = MappingProxyType({**RECIPE, "lora_rank": "32"})

FEWEST_RATES: Final = 5
"""With fewer one would compare how well each adapter was tuned."""

FEWEST_SEEDS: Final = 3

_ADAPTERS: Final = (AdapterKind.LORA, AdapterKind.DORA, AdapterKind.QLORA, AdapterKind.QDORA)
_RATES_OF: Final = "rates."
_SET: Final = (
    "learning_rate",
    "seed",
    "adapter",
    "log_path",
    "stop_after",
    "behavior_if_log_dir_exists",
)
"""Keys of a run that the study sets itself."""

ADAPTER_KEYS: Final = StudyKeys(
    own=(
        StudyKey(name="out", default="runs/study-adapters", words="The study's folder."),
        StudyKey(
            name="adapters",
            default=",".join(_ADAPTERS),
            words="What is compared: lora, and one or more of the others.",
        ),
        StudyKey(
            name="rates",
            default=",".join(map(str, RATES)),
            words=f"Learning rates that are tried, {FEWEST_RATES} or more; rates.qdora=... for one adapter. "
            f"at=small: {','.join(map(str, SMALL_RATES))}.",
        ),
        StudyKey(
            name="seeds", default="1,2,3", words=f"That are reported, {FEWEST_SEEDS} or more."
        ),
        TUNING_SEED,
        DRY_RUN,
    ),
    passed_on=(KEYS[Kind.SFT].known - {*_SET, "kind", "quiet"})
    | {f"{_RATES_OF}{adapter}" for adapter in _ADAPTERS},
    set_by_study=frozenset(_SET),
    instead="rates, seeds, adapters and out instead",
    more="Any other key of supervised training is one of every run: tinsmith run sft/lora --help",
)
"""What it can be told."""


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
    ADAPTER_KEYS.require(overrides)
    adapters = _adapters(ADAPTER_KEYS.value(overrides, "adapters"))
    by_adapter = {f"{_RATES_OF}{adapter}": adapter for adapter in adapters}
    require_a_score(overrides)
    if "steps" in overrides:
        count("steps", overrides["steps"], 1)
    for key, value in overrides.items():
        if key.startswith(_RATES_OF) and key not in by_adapter:
            raise ConfigError(
                "this adapter is not compared",
                field=key,
                value=value,
                allowed=", ".join(by_adapter),
            )
    usual = ",".join(map(str, SMALL_RATES if _at_small(overrides) else RATES))
    every = learning_rates("rates", overrides.get("rates", usual), least=FEWEST_RATES)
    rates = {
        adapter: learning_rates(key, overrides[key], least=FEWEST_RATES)
        if key in overrides
        else every
        for key, adapter in by_adapter.items()
    }
    seeds, tuning_seed = seeds_apart(
        ADAPTER_KEYS.value(overrides, "seeds"),
        ADAPTER_KEYS.value(overrides, "tuning_seed"),
        least=FEWEST_SEEDS,
    )
    passed_on = {
        key: value
        for key, value in ADAPTER_KEYS.runs_keys(overrides).items()
        if key not in by_adapter
    }
    return AdapterStudySettings(
        out=Path(ADAPTER_KEYS.value(overrides, "out")),
        rates=MappingProxyType(rates),
        seeds=seeds,
        tuning_seed=tuning_seed,
        dry_run=truth("dry_run", ADAPTER_KEYS.value(overrides, "dry_run")),
        shared=MappingProxyType({**_place(overrides), **passed_on, "quiet": "true"}),
    )


def _place(overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Return what all runs have where they run; at the seeds' place the whole notebook, LoRA too."""
    if _at_small(overrides):
        return _SMALL_RECIPE
    if overrides.get("at") != At.SEED.value:
        return RECIPE
    return {key: shown_value(value) for key, value in NOTEBOOK.items() if key not in _SET}


def _at_small(overrides: Mapping[str, str]) -> bool:
    return overrides.get("at") == At.SMALL.value


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
