"""Which values an experiment's keys have at each place: the nano base, a small pretrained model, the source notes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.experiment import Value
from tinsmith.lab.experiment.at import At
from tinsmith.lab.runs.kinds import Kind

_NANO_RL: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "steps": 100,
        "learning_rate": 1.5e-3,
        "lora_rank": 16,
        "group_size": 8,
        "groups_per_batch": 16,
        "eval_every": 25,
        "save_every": 25,
        "eval_items": 200,
    }
)

NANO: Final[Mapping[Kind, Mapping[str, Value]]] = MappingProxyType(
    {
        Kind.RL: _NANO_RL,
        Kind.JOINT: _NANO_RL,
        Kind.DEBATE: MappingProxyType(
            {
                "steps": 400,
                "learning_rate": 7e-4,
                "lr_schedule": "linear",
                "lora_rank": 16,
                "group_size": 4,
                "groups_per_batch": 32,
                "eval_every": 100,
                "save_every": 100,
                "eval_items": 200,
                "select_by": "last",
            }
        ),
        Kind.RLVR: MappingProxyType(
            {
                "steps": 120,
                "learning_rate": 6e-4,
                "lora_rank": 16,
                "group_size": 8,
                "groups_per_batch": 8,
                "max_tokens": 32,
                "train_ratio": 0.75,
                "eval_samples": 8,
                "eval_every": 40,
                "save_every": 40,
                "select_by": "last",
            }
        ),
        Kind.TASK: MappingProxyType(
            {
                "steps": 60,
                "learning_rate": 6e-4,
                "lora_rank": 16,
                "group_size": 8,
                "groups_per_batch": 8,
                "max_tokens": 32,
                "eval_items": 100,
                "eval_every": 20,
                "save_every": 20,
                "select_by": "last",
            }
        ),
        Kind.SFT: MappingProxyType(
            {
                "steps": 120,
                "learning_rate": 2e-3,
                "lora_rank": 16,
                "batch_size": 32,
                "eval_every": 60,
                "save_every": 60,
                "eval_items": 200,
            }
        ),
    }
)
"""Values of `at=nano`: what two cores do in about a minute."""

_BRIEF: Final[Mapping[str, Value]] = MappingProxyType({"prompt": "brief", "max_tokens": 48})

NANO_ONLY: Final[Mapping[Kind, Mapping[str, Value]]] = MappingProxyType(
    {
        Kind.RL: _BRIEF,
        Kind.SFT: _BRIEF,
        Kind.DEBATE: MappingProxyType(
            {"prompt": "brief", "script": "brief", "contract": "two_key", "max_tokens": 24}
        ),
        Kind.JOINT: MappingProxyType({"prompt": "brief", "max_tokens": 64}),
        Kind.RLVR: MappingProxyType({}),
        Kind.TASK: MappingProxyType({}),
    }
)
"""What the nano base needs whatever the rung says: it has read the brief prompt only."""

SMALL_MODEL: Final = "smollm2"
"""The model of `at=small` where none is named: `tinsmith base fetch smollm2` gets it."""

_SMALL_RL: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "model_name": SMALL_MODEL,
        "steps": 30,
        "learning_rate": 3e-4,
        "lora_rank": 16,
        "group_size": 8,
        "groups_per_batch": 16,
        "sft_steps": 6,
        "sft_learning_rate": 5e-4,
        "sft_batch_size": 16,
        "grad_clip_norm": 1.0,
        "eval_every": 10,
        "save_every": 10,
        "eval_items": 48,
        "test_items": 150,
    }
)

SMALL: Final[Mapping[Kind, Mapping[str, Value]]] = MappingProxyType(
    {
        Kind.RL: _SMALL_RL,
        Kind.TASK: MappingProxyType(
            {
                "model_name": SMALL_MODEL,
                "steps": 40,
                "learning_rate": 3e-4,
                "lora_rank": 16,
                "group_size": 8,
                "groups_per_batch": 8,
                "grad_clip_norm": 1.0,
                "max_tokens": 48,
                "eval_items": 50,
                "eval_every": 20,
                "save_every": 20,
                "select_by": "last",
            }
        ),
        Kind.SFT: MappingProxyType(
            {
                "model_name": SMALL_MODEL,
                "steps": 60,
                "learning_rate": 3e-4,
                "lora_rank": 16,
                "batch_size": 16,
                "grad_clip_norm": 1.0,
                "eval_every": 20,
                "save_every": 20,
                "eval_items": 48,
                "test_items": 150,
            }
        ),
        Kind.RLVR: MappingProxyType(
            {
                "model_name": SMALL_MODEL,
                "steps": 60,
                "learning_rate": 3e-4,
                "lora_rank": 16,
                "group_size": 8,
                "groups_per_batch": 16,
                "grad_clip_norm": 1.0,
                "max_tokens": 40,
                "train_ratio": 0.67,
                "eval_samples": 2,
                "eval_items": 100,
                "eval_every": 20,
                "save_every": 20,
                "select_by": "last",
            }
        ),
    }
)
"""Values of `at=small`: what two cores do with SmolLM2-135M-Instruct in well under an hour. As it cannot
answer in JSON by itself, RL on labels begins with a few supervised steps. There are no numbers for
conversations of two and for both labels in one answer, which no model of that size was tried with."""

_SHORT: Final[Mapping[str, Value]] = MappingProxyType(
    {"prompt": "short", "contract": "two_key", "max_tokens": 40}
)

SMALL_ONLY: Final[Mapping[Kind, Mapping[str, Value]]] = MappingProxyType(
    {Kind.RL: _SHORT, Kind.SFT: _SHORT}
)
"""What a small chat model needs whatever the rung says: an answer shown before one is asked for, and no prose in it."""

_SEED_RL: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "steps": 313,
        "learning_rate": 8e-6,
        "lora_rank": 32,
        "group_size": 2,
        "groups_per_batch": 16,
        "temperature": 0.3,
        "max_tokens": 256,
        "eval_every": 250,
        "save_every": 250,
        "eval_items": 500,
        "train_items": 5000,
    }
)

SEED: Final[Mapping[Kind, Mapping[str, Value]]] = MappingProxyType(
    {
        Kind.RL: _SEED_RL,
        Kind.JOINT: _SEED_RL,
        Kind.DEBATE: MappingProxyType({**_SEED_RL, "group_size": 4, "select_by": "last"}),
        Kind.RLVR: MappingProxyType(
            {
                "steps": 31,
                "learning_rate": 4e-5,
                "lora_rank": 32,
                "group_size": 8,
                "groups_per_batch": 32,
                "max_tokens": 2048,
                "judge_model": "gpt-5-mini",
                "model_name": "meta-llama/Llama-3.1-8B",
                "eval_every": 10,
                "save_every": 20,
                "select_by": "last",
            }
        ),
        Kind.TASK: MappingProxyType(
            {
                "steps": 100,
                "learning_rate": 4e-5,
                "lora_rank": 32,
                "group_size": 8,
                "groups_per_batch": 32,
                "max_tokens": 512,
                "eval_items": 200,
                "eval_every": 20,
                "save_every": 20,
                "select_by": "last",
            }
        ),
        Kind.SFT: MappingProxyType(
            {
                "steps": 313,
                "learning_rate": 1e-4,
                "lora_rank": 32,
                "batch_size": 16,
                "temperature": 0.3,
                "max_tokens": 256,
                "eval_every": 250,
                "save_every": 250,
                "eval_items": 500,
                "train_items": 5000,
            }
        ),
    }
)
"""Values of `at=seed`. Papers: 5,000 once, batch 16, group 2, learning rate 8e-6, temperature 0.3, no KL. Rubrics: the
table of the recipe; its 31 batches see the training part of 1,000 tasks about once."""

NOTEBOOK: Final[Mapping[str, Value]] = MappingProxyType(
    {
        "lora_rank": 64,
        "lora_alpha": 128.0,
        "train_unembed": False,
        "learning_rate": 1e-5,
        "lr_schedule": "cosine",
        "lr_warmup": 0.03,
        "weight_decay": 0.1,
        "grad_clip_norm": 1.0,
        "batch_size": 32,
        "steps": 157,
    }
)
"""The seeds' notebook on QDoRA, for supervised training at `at=seed`: one epoch of the ladder's 5,000 papers.

Its dropout of 0.05 has no counterpart in the Tinker API, and its `o_proj` was not adapted, which here goes with
attention.
"""

VALUES: Final[Mapping[At, Mapping[Kind, Mapping[str, Value]]]] = MappingProxyType(
    {At.NANO: NANO, At.SMALL: SMALL, At.SEED: SEED}
)
"""What keys are at a place, unless a rung or the command line says otherwise; a kind without numbers is left out."""

FORCED: Final[Mapping[At, Mapping[Kind, Mapping[str, Value]]]] = MappingProxyType(
    {At.NANO: NANO_ONLY, At.SMALL: SMALL_ONLY, At.SEED: MappingProxyType({})}
)
"""What they are there whatever the rung says; the command line still goes before it."""


def places_of(kind: Kind) -> tuple[At, ...]:
    """Return where a kind of experiment can run."""
    return tuple(at for at in At if kind in VALUES[at])
