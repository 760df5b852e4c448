"""What every subject's numbers begin with: the model of `at=small`, and what leaves the loops of papers out."""

from __future__ import annotations

from typing import Final

SMALL_MODEL: Final = "smollm2"
"""The model of `at=small` where none is named: `tinsmith base fetch smollm2` gets it."""

BY_EXAMPLE: Final = frozenset({"sft_steps", "sft_learning_rate", "sft_batch_size"})
"""Keys of the supervised steps before RL, which only labels of single papers have."""

WITHOUT_SLICE: Final = BY_EXAMPLE | {"select_by", "gradient", "data", "test_items"}
"""Keys without a meaning where there is no slice: no third split to choose by or to test on, and no label whose
gradient would be exact."""
