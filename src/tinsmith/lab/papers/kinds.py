"""Ways to train on papers: their keys, and the values of these by size of model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tinsmith.lab.experiment.at import BY_EXAMPLE, OPTIONS, SMALL_MODEL, At, RunFrame
from tinsmith.lab.experiment.experiment import KindEntry, Values
from tinsmith.lab.experiment.key_text import Keys
from tinsmith.lab.papers.labels import joint, labels
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.settings import RlSettings, SftSettings
from tinsmith.lab.user_task.argument_keys import argument_keys

_LABELS, _JOINT = (argument_keys(one, Path(__file__)) for one in (labels, joint))

# fmt: off
_NANO: Final[Values] = {"lora_rank": 16, "eval_items": 200}
_NANO_RL: Final[Values] = {
    **_NANO, "steps": 100, "learning_rate": 1.5e-3, "group_size": 8, "groups_per_batch": 16,
    "eval_every": 25, "save_every": 25,
}
_SMALL: Final[Values] = {
    "model_name": SMALL_MODEL, "learning_rate": 3e-4, "lora_rank": 16, "grad_clip_norm": 1.0,
    "eval_items": 48, "test_items": 150,
}
_SMALL_RL: Final[Values] = {
    **_SMALL, "steps": 30, "group_size": 8, "groups_per_batch": 16, "eval_every": 10, "save_every": 10,
    "sft_steps": 6, "sft_learning_rate": 5e-4, "sft_batch_size": 16,
}
_SEED: Final[Values] = {
    "steps": 313, "lora_rank": 32, "temperature": 0.3, "max_tokens": 256,
    "eval_every": 250, "save_every": 250, "eval_items": 500, "train_items": 5000,
}
SEED_RL: Final[Values] = {**_SEED, "learning_rate": 8e-6, "group_size": 2, "groups_per_batch": 16}
NOTEBOOK: Final[Values] = {
    "lora_rank": 64, "lora_alpha": 128.0, "train_unembed": False, "learning_rate": 1e-5, "lr_schedule": "cosine",
    "lr_warmup": 0.03, "weight_decay": 0.1, "grad_clip_norm": 1.0, "batch_size": 32, "steps": 157,
}
"""The source notes' notebook on QDoRA, for supervised training at `at=seed`: one epoch of the ladder's 5,000 papers.

Its dropout of 0.05 has no counterpart in the Tinker API, and its `o_proj` was not adapted, which here goes with
attention.
"""
_SFT: Final[Mapping[At, Values]] = {
    At.NANO: {
        **_NANO, "steps": 120, "learning_rate": 2e-3, "batch_size": 32, "eval_every": 60, "save_every": 60,
    },
    At.SMALL: {**_SMALL, "steps": 60, "batch_size": 16, "eval_every": 20, "save_every": 20},
    At.SEED: {**_SEED, "learning_rate": 1e-4, "batch_size": 16},
}
# fmt: on
_FORCED: Final[Mapping[At, Values]] = {
    At.NANO: {"prompt": "brief", "max_tokens": 48},
    At.SMALL: {"prompt": "short", "contract": "two_key", "max_tokens": 40},
}

LABEL_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.RL: KindEntry(
            keys=Keys(RunFrame, RlSettings, without=OPTIONS, own=_LABELS),
            values={At.NANO: _NANO_RL, At.SMALL: _SMALL_RL, At.SEED: SEED_RL},
            forced=_FORCED,
            named_reward=True,
        ),
        Kind.SFT: KindEntry(
            keys=Keys(RunFrame, SftSettings, without=frozenset({"reward"}), own=_LABELS), values=_SFT, forced=_FORCED
        ),
    }
)
"""On one label, by RL and supervised; where a small model cannot answer in JSON by itself, RL begins supervised.

Values of `at=nano` are what two cores do in about a minute, those of `at=small` what they do with
SmolLM2-135M-Instruct in well under an hour; those of `at=seed` see 5,000 papers once: batch 16, group 2, learning rate
8e-6, temperature 0.3, no KL. Forced is what a model needs: the nano base has read the brief prompt only, and a small
chat model needs an answer shown before one is asked for, and no prose in it.
"""
JOINT_KINDS: Final[Mapping[Kind, KindEntry]] = MappingProxyType(
    {
        Kind.JOINT: KindEntry(
            keys=Keys(RunFrame, RlSettings, without=BY_EXAMPLE | OPTIONS | {"gradient", "task"}, own=_JOINT),
            values={At.NANO: _NANO_RL, At.SEED: SEED_RL},
            forced={At.NANO: {"prompt": "brief", "max_tokens": 64}},
            named_reward=True,
        )
    }
)
"""On both labels: a pair has no gradient that is exact, and no example that supervised steps would follow.

There are no numbers for a small model: none of that size was tried with both labels in one answer.
"""
