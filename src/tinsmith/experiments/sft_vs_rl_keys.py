"""Which keys the study of SFT against RL has, what its worlds' numbers are, and what all of its runs are passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.experiments.keys import KEYS, At, Kind
from tinsmith.experiments.study_keys import DRY_RUN, TUNING_SEED, StudyKey, StudyKeys

QUESTION: Final = (
    "Does RL teach a small model to tell labels better than SFT does, with nothing else unequal?"
)


class StudyWorld(StrEnum):
    """On which papers."""

    PLANTED = "planted"
    """Their best possible scores are known."""
    QUICKSTART = "quickstart"
    """The synthetic world of experiments that are given no papers."""
    DATA = "data"
    """A slice folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The numbers of a world; rates as they would stand on the command line."""

    steps: int
    groups_per_batch: int
    group_size: int
    sft_rates: str
    rl_rates: str
    shared: Mapping[str, str]


_PAPERS: Final = Place(
    steps=100,
    groups_per_batch=16,
    group_size=8,
    sft_rates="5e-4,1e-3,2e-3,4e-3,8e-3",
    rl_rates="5e-4,1e-3,1.5e-3,2e-3,3e-3",
    shared=MappingProxyType({"lora_rank": "16", "eval_items": "200"}),
)
_SMALL: Final = Place(
    steps=30,
    groups_per_batch=16,
    group_size=8,
    sft_rates="1e-4,2e-4,4e-4,8e-4,1.6e-3",
    rl_rates="5e-5,1e-4,2e-4,4e-4,8e-4",
    shared=MappingProxyType(
        {"at": At.SMALL.value, "lora_rank": "16", "eval_items": "48", "test_items": "150"}
    ),
)
_NANO: Final[Mapping[StudyWorld, Place]] = MappingProxyType(
    {
        StudyWorld.QUICKSTART: _PAPERS,
        StudyWorld.DATA: _PAPERS,
        StudyWorld.PLANTED: Place(
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
PLACES: Final[Mapping[At, Mapping[StudyWorld, Place]]] = MappingProxyType(
    {At.NANO: _NANO, At.SMALL: MappingProxyType(dict.fromkeys(StudyWorld, _SMALL))}
)
"""The numbers of every world, by the size of the model."""

REWARD: Final = "reward."
"""How the keys of a reward begin."""
_SET: Final = (
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
    "kind",
    "task",
    "prompt",
    "contract",
    "reward",
    "log_path",
    "stop_after",
    "behavior_if_log_dir_exists",
)
"""Keys of a run that the study sets itself, or that would make its arms unequal."""


def _by_world(name: str) -> str:
    papers, planted = (
        str(getattr(_NANO[world], name)) for world in (StudyWorld.DATA, StudyWorld.PLANTED)
    )
    told = papers if papers == planted else f"{papers}; planted: {planted}"
    small = str(getattr(_SMALL, name))
    return told if small in (papers, planted) else f"{told}; at=small: {small}"


SFT_VS_RL_KEYS: Final = StudyKeys(
    own=(
        StudyKey(name="out", default="runs/study-sft_vs_rl", words="The study's folder."),
        StudyKey(
            name="world",
            default=StudyWorld.QUICKSTART.value,
            words="Which papers, without data: planted, whose best scores are known, or quickstart.",
        ),
        StudyKey(name="data", default="", words="A slice folder."),
        StudyKey(
            name="at",
            default=At.NANO.value,
            words="Whose numbers: nano, or small for a small pretrained model.",
        ),
        StudyKey(
            name="model_name",
            default="",
            words="Folder, FILE.gguf, smollm2 or ORG/NAME; else the nano base of these papers, smollm2 at=small.",
        ),
        StudyKey(
            name="sft_rates",
            default=_by_world("sft_rates"),
            words="Learning rates that supervised arms try; five make a claim.",
        ),
        StudyKey(
            name="rl_rates",
            default=_by_world("rl_rates"),
            words="Those that RL tries, as many.",
        ),
        StudyKey(name="seeds", default="1,2,3,4,5", words="That are reported."),
        TUNING_SEED,
        StudyKey(name="steps", default=_by_world("steps"), words="Of RL and of SFT."),
        StudyKey(
            name="sft_steps",
            default="half of steps",
            words="Of SFT then RL: so many of its steps, the first ones, are supervised.",
        ),
        StudyKey(
            name="groups_per_batch",
            default=_by_world("groups_per_batch"),
            words="Papers a step, for SFT as well.",
        ),
        StudyKey(name="group_size", default=_by_world("group_size"), words="Answers to each."),
        DRY_RUN,
    ),
    passed_on=(KEYS[Kind.RL].known & KEYS[Kind.SFT].known) - {*_SET, "quiet"},
    prefixes=(REWARD,),
    set_by_study=frozenset(_SET),
    instead="out, seeds, sft_rates, rl_rates, steps and groups_per_batch instead",
    more="Any other key that SFT and RL share is one of every run: tinsmith run sft/lora --help; reward.NAME=... of RL",
)
"""What it can be told."""
