"""Sizes of model that numbers are for, keys that every run has, and those without a meaning somewhere."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.runs.kinds import Kind


class At(enum.StrEnum):
    """For which size of model the numbers are."""

    NANO = "nano"
    """The base that is built here, from scratch."""
    SMALL = "small"
    """A small pretrained chat model: SmolLM2-135M-Instruct, on two cores."""
    SEED = "seed"
    """As in the source notes: Llama-3.1-8B-Instruct on a hosted service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFrame:
    """The keys of a run that are no loop's settings; a subject adds its own."""

    kind: Kind
    at: At = At.NANO
    """Settings by size of model: nano (the nano base), small (SmolLM2-135M), seed (the source notes' 8B model)."""


SMALL_MODEL: Final = "smollm2"
"""The model of `at=small` where none is named: `tinsmith base fetch smollm2` gets it."""

BY_EXAMPLE: Final = frozenset({"sft_steps", "sft_learning_rate", "sft_batch_size"})
"""Keys of the supervised steps before RL, without a meaning where no answer is known to be right."""

WITHOUT_LABELS: Final = frozenset({"select_by", "gradient", "data", "test_items", "logit_offset"})
"""Keys without a meaning where there is no slice: no third split to choose by or to test on, and no label whose
gradient would be exact or whose log-probability could be offset."""

WITHOUT_SLICE: Final = BY_EXAMPLE | WITHOUT_LABELS
"""The same where no answer is known to be right either."""

OPTIONS: Final = frozenset({"force_options", "confidence_penalty", "confidence_prefixes", "interleave"})
"""Keys without a meaning where no item names the answers that there are, and none is set aside."""
