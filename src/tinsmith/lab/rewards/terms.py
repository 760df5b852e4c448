"""Reward of one answer as named terms, and the constants of its table.

A reward is a sum parse + contract + task + think. Only the task term looks at the label. The failure
to run a rollout at all is no answer and has no reward; it never comes here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final

from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.subjects import Subject

_DECIMALS: Final = 12
"""Totals are rounded to this: 0.05 - 0.60 is -0.55, and equal rewards are equal bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Parts of one answer's reward; a part that does not apply is 0."""

    parse: float = 0.0
    """The text is not JSON."""
    contract: float = 0.0
    """It is JSON: within the contract, or not."""
    task: float = 0.0
    """The label, where there is a valid one."""
    think: float = 0.0
    """A think tag stands in the text."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the parts in their fixed order."""
        return tuple(field.name for field in fields(cls))

    @property
    def total(self) -> float:
        """The sum, rounded to 12 decimals."""
        return rounded_sum(self.parse, self.contract, self.task, self.think)

    def alone(self, subject: Subject) -> float:
        """Return the total: no other subject counts."""
        del subject
        return self.total


def rounded_sum(*terms: float) -> float:
    """Return the exact sum, rounded to 12 decimals; -0.0 becomes 0.0."""
    return round(math.fsum(terms), _DECIMALS) + 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTable:
    """Constants of a reward."""

    unparsed: float
    """parse: the text is not JSON."""
    invalid: float
    """contract: JSON outside the contract."""
    valid: float
    """contract: within it."""
    correct: float
    """task, times the class weight of the gold label."""
    wrong: float
    """task; no class weight."""
    think: float
    """think, on top of whatever else."""

    def terms(self, answer: Answer, task: float) -> Terms:
        """Return an answer's terms; `task` counts only where the answer has a valid label."""
        contract = self.valid if answer.payload_ok else self.invalid
        return Terms(
            parse=0.0 if answer.parse_ok else self.unparsed,
            contract=contract if answer.parse_ok else 0.0,
            task=task if answer.payload_ok else 0.0,
            think=self.think if answer.has_think else 0.0,
        )


SOFT: Final = RewardTable(unparsed=-1.0, invalid=-0.5, valid=0.25, correct=0.5, wrong=-0.25, think=-1.0)
"""Totals +0.75, 0, -0.5, -1, and -1 for a think tag. The totals are the source notes'; how they split into
terms is our choice."""
STRONG: Final = RewardTable(unparsed=-1.0, invalid=-0.75, valid=0.05, correct=1.0, wrong=-0.6, think=-1.0)
"""Totals +1.05, -0.55, -0.75, -1. Exp5's +3.05 fixes the split: 0.05 + 3 * 1.0."""
