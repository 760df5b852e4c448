"""What a study of adapters is asked for: which adapters, rates and seeds, and what all of its runs have in common."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.experiment.experiment import Experiment
from tinsmith.lab.experiment.key_help import shown_value
from tinsmith.lab.papers.kinds import LABEL_KINDS, NOTEBOOK
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.arms import Study, StudyArm
from tinsmith.lab.study.cluster_keys import CLUSTER_KEYS
from tinsmith.lab.study.keys import (
    DRY_RUN,
    FEWEST_RATES,
    TUNING_SEED,
    StudyKey,
    StudyKeys,
    count,
    learning_rates,
    require_a_score,
)
from tinsmith.studies.disruption.experiments import SFT_DORA, SFT_LORA, SFT_QDORA, SFT_QLORA
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import ConfigError

QUESTION: Final = "What do four bits and a trained magnitude cost and gain, each adapter at the rate that suits it?"

WORDS: Final[Mapping[AdapterKind, str]] = MappingProxyType(
    {AdapterKind.LORA: "LoRA", AdapterKind.DORA: "DoRA", AdapterKind.QLORA: "QLoRA", AdapterKind.QDORA: "QDoRA"}
)
"""What can be compared, in the study's order; LoRA first, which the others are compared with."""

RECIPE: Final[Mapping[str, str]] = MappingProxyType(
    {"lora_rank": "64", "lr_schedule": "cosine", "lr_warmup": "0.03", "weight_decay": "0.1", "grad_clip_norm": "1.0"}
)
"""The seeds' settings for QDoRA that a nano base can have too, for every adapter; steps and batch stay the place's."""

RATES: Final = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
"""Learning rates that are tried for the nano base."""
SMALL_RATES: Final = (1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3)
"""Those for a small pretrained model."""

FEWEST_SEEDS: Final = 3

_RATES_OF: Final = "rates."
_SET: Final = frozenset(["learning_rate", "seed", "adapter", "log_path", "stop_after", "behavior_if_log_dir_exists"])
"""Keys of a run that the study sets itself."""

EXPERIMENTS: Final[Mapping[AdapterKind, Experiment]] = MappingProxyType(
    {AdapterKind.LORA: SFT_LORA, AdapterKind.DORA: SFT_DORA, AdapterKind.QLORA: SFT_QLORA, AdapterKind.QDORA: SFT_QDORA}
)

ADAPTER_KEYS: Final = StudyKeys(
    own=(
        StudyKey("out", "runs/study-adapters", "The study's folder."),
        StudyKey("adapters", ",".join(WORDS), "What is compared: lora, and one or more of the others."),
        StudyKey(
            "rates",
            ",".join(map(str, RATES)),
            f"Learning rates that are tried, {FEWEST_RATES} or more; rates.qdora=... for one adapter. "
            f"at=small: {','.join(map(str, SMALL_RATES))}.",
        ),
        StudyKey("seeds", "1,2,3", f"That are reported, {FEWEST_SEEDS} or more."),
        TUNING_SEED,
        DRY_RUN,
        *CLUSTER_KEYS,
    ),
    passed_on=(LABEL_KINDS[Kind.SFT].keys.known - {*_SET, "kind", "quiet"})
    | {f"{_RATES_OF}{adapter}" for adapter in WORDS},
    set_by_study=_SET,
    instead="rates, seeds, adapters and out instead",
    more="Any other key of supervised training is one of every run: tinsmith run sft/lora --help",
)
"""What it can be told."""


def adapter_study(overrides: Mapping[str, str]) -> Study:
    """Read `key=value`: the study's own keys, and any key of supervised training for all of its runs.

    Raises:
        ConfigError: a key that the study sets itself, too few rates or seeds, or a value that cannot be read.
    """
    ADAPTER_KEYS.require(overrides)
    adapters = _adapters(ADAPTER_KEYS.value(overrides, "adapters"))
    require_a_score(overrides)
    if "steps" in overrides:
        count("steps", overrides["steps"], 1)
    by_adapter = {f"{_RATES_OF}{adapter}": adapter for adapter in adapters}
    passed_on = ADAPTER_KEYS.runs_keys(overrides)
    own_rates = {key: passed_on.pop(key) for key in overrides if key.startswith(_RATES_OF)}
    for key, value in own_rates.items():
        if key not in by_adapter:
            raise ConfigError("this adapter cannot be compared", field=key, value=value, allowed=", ".join(by_adapter))
    usual = ",".join(map(str, SMALL_RATES if _at_small(overrides) else RATES))
    every = learning_rates("rates", overrides.get("rates", usual), least=FEWEST_RATES)
    own = {key: learning_rates(key, text, least=FEWEST_RATES) for key, text in own_rates.items()}
    arms = tuple(
        StudyArm(adapter.value, WORDS[adapter], EXPERIMENTS[adapter], own.get(key, every))
        for key, adapter in by_adapter.items()
    )
    shared = {**_place(overrides), **passed_on}
    study = Study(name="study/adapters", question=QUESTION, arms=arms, shared=shared)
    return study.asked(ADAPTER_KEYS, overrides, fewest_seeds=FEWEST_SEEDS)


def _place(overrides: Mapping[str, str]) -> Mapping[str, str]:
    """Return what all runs have where they run; at the source notes' place the whole notebook, LoRA too."""
    if _at_small(overrides):
        return {**RECIPE, "lora_rank": "32"}
    if overrides.get("at") != At.SEED.value:
        return RECIPE
    return {key: shown_value(value) for key, value in NOTEBOOK.items() if key not in _SET}


def _at_small(overrides: Mapping[str, str]) -> bool:
    return overrides.get("at") == At.SMALL.value


def _adapters(text: str) -> tuple[AdapterKind, ...]:
    named = {name.strip() for name in text.split(",")}
    if AdapterKind.LORA not in named or len(named) < 2 or not named <= set(WORDS):
        raise ConfigError(
            "name at least one adapter to compare with LoRA", field="adapters", value=text, allowed=", ".join(WORDS)
        )
    return tuple(kind for kind in WORDS if kind in named)
