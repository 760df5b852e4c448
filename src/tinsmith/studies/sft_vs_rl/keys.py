"""Which keys the study of SFT against RL has, what its worlds' numbers are, and what all of its runs are passed."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from tinsmith.lab.experiment.at import At
from tinsmith.lab.papers.kinds import LABEL_KINDS
from tinsmith.lab.prompt_search.search import SearchSettings
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.study.cluster_keys import CLUSTER_KEYS
from tinsmith.lab.study.keys import DRY_RUN, TUNING_SEED, StudyKey, StudyKeys

QUESTION: Final = "Does RL teach a small model to tell labels better than SFT does, with nothing else unequal?"


class StudyWorld(StrEnum):
    """On which papers."""

    PLANTED = "planted"
    """Their best possible scores are known."""
    QUICKSTART = "quickstart"
    """The synthetic world of experiments that are given no papers."""
    DATA = "data"
    """A slice folder."""


Numbers = Mapping[str, str]
"""Keys with their values as they would stand on the command line."""

_PAPERS: Final[Numbers] = {
    "steps": "100",
    "groups_per_batch": "16",
    "group_size": "8",
    "sft_rates": "5e-4,1e-3,2e-3,4e-3,8e-3",
    "rl_rates": "5e-4,1e-3,1.5e-3,2e-3,3e-3",
    "lora_rank": "16",
    "eval_items": "200",
}
_PLANTED: Final[Numbers] = {
    **_PAPERS,
    "steps": "60",
    "groups_per_batch": "32",
    "group_size": "4",
    "rl_rates": "1e-3,2e-3,3e-3,4e-3,6e-3",
    "eval_items": "120",
    "max_tokens": "32",
    "with_metadata": "false",
}
_SMALL: Final[Numbers] = {
    **_PAPERS,
    "steps": "30",
    "sft_rates": "1e-4,2e-4,4e-4,8e-4,1.6e-3",
    "rl_rates": "5e-5,1e-4,2e-4,4e-4,8e-4",
    "eval_items": "48",
    "test_items": "150",
}
ALLOWED_AT: Final = (At.NANO, At.SMALL)
"""Sizes of models that the study has numbers for."""


def numbers_of(at: At, world: StudyWorld) -> Numbers:
    """Return what a world's numbers are, by the size of the model."""
    if at is At.SMALL:
        return _SMALL
    return _PLANTED if world is StudyWorld.PLANTED else _PAPERS


PROMPT_SEARCH: Final = "prompt_search"
_SEARCH: Final = SearchSettings()
REWARD: Final = "reward."
"""How the keys of a reward begin."""
_SET: Final = frozenset(
    [
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
        "prompt_lines",
        "contract",
        "reward",
        "log_path",
        "stop_after",
        "behavior_if_log_dir_exists",
    ]
)
"""Keys of a run that the study sets itself, or that would make its arms unequal."""


def _by_world(name: str) -> str:
    papers, planted, small = (each[name] for each in (_PAPERS, _PLANTED, _SMALL))
    told = papers if papers == planted else f"{papers}; planted: {planted}"
    return told if small in (papers, planted) else f"{told}; at=small: {small}"


SFT_VS_RL_KEYS: Final = StudyKeys(
    own=(
        StudyKey("out", "runs/study-sft_vs_rl", "The study's folder."),
        StudyKey(
            "world",
            StudyWorld.QUICKSTART.value,
            "Which papers, without data: planted, whose best scores are known, or quickstart.",
        ),
        StudyKey("data", "", "A slice folder."),
        StudyKey("at", At.NANO.value, "Whose numbers: nano, or small for a small pretrained model."),
        StudyKey(
            "model_name",
            "",
            "Folder, FILE.gguf, smollm2 or ORG/NAME; else the nano base of these papers, smollm2 at=small.",
        ),
        StudyKey("sft_rates", _by_world("sft_rates"), "Learning rates that supervised arms try; five make a claim."),
        StudyKey("rl_rates", _by_world("rl_rates"), "Those that RL tries, as many."),
        StudyKey("seeds", "1,2,3,4,5", "That are reported."),
        TUNING_SEED,
        StudyKey("steps", _by_world("steps"), "Of RL and of SFT."),
        StudyKey("sft_steps", "half of steps", "Of SFT then RL: so many of its steps, the first ones, are supervised."),
        StudyKey("groups_per_batch", _by_world("groups_per_batch"), "Papers a step, for SFT as well."),
        StudyKey("group_size", _by_world("group_size"), "Answers to each."),
        StudyKey(PROMPT_SEARCH, "false", "Whether the base under a searched prompt is an arm too, with its control."),
        StudyKey("search_steps", "as many as look at no fewer papers than RL", "Of the search for a prompt."),
        StudyKey("search_batch", str(_SEARCH.batch), "Training papers that edits are tried on."),
        StudyKey("search_candidates", str(_SEARCH.candidates), "Edits proposed in a step."),
        StudyKey("search_gate", str(_SEARCH.gate), "Training papers that the gate draws."),
        DRY_RUN,
        *CLUSTER_KEYS,
    ),
    passed_on=(LABEL_KINDS[Kind.RL].keys.known & LABEL_KINDS[Kind.SFT].keys.known) - {*_SET, "quiet"},
    prefixes=(REWARD,),
    set_by_study=_SET,
    instead="out, seeds, sft_rates, rl_rates, steps and groups_per_batch instead",
    more="Any other key that SFT and RL share is one of every run: tinsmith run sft/lora --help; reward.NAME=... of RL",
)
"""What it can be told."""
