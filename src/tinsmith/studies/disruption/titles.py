"""Titles by which pages and tables call the experiments on labels of papers.

They are short, as a table of 80 columns begins with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ladder/baseline": "RL (baseline)",
        "ladder/exp1": "RL (explained)",
        "ladder/exp2": "RL (stronger)",
        "ladder/exp3": "RL (checklist)",
        "ladder/exp4": "RL (accuracy)",
        "ladder/exp5": "RL (weighted)",
        "remedy/exp6": "RL (macro-F1)",
        "remedy/exp7": "RL (shares)",
        "remedy/exp8": "RL (floor)",
        "remedy/exp10": "RL (product)",
        "remedy/sft_then_rl": "SFT then RL",
        "control/shuffled_labels": "RL (shuffled)",
        "control/exact_gradient": "RL (exact)",
        "control/zero_shot": "Before training",
        "sft/lora": "LoRA SFT",
        "sft/dora": "DoRA SFT",
        "sft/qlora": "QLoRA SFT",
        "sft/qdora": "QDoRA SFT",
        # Its decisions with offsets stand beside it, under this name and theirs.
        "sft/lora_offset": "LoRA SFT",
        "joint/disruption_novelty": "Both labels",
        "joint/shuffled_labels": "Both (shuffled)",
    }
)
"""By the experiment's name."""
