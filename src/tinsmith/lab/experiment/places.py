"""What every subject's numbers begin with: the model of `at=small`, and what leaves the loops of papers out."""

from __future__ import annotations

from typing import Final

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
