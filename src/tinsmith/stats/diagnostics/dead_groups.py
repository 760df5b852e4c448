"""How many groups have rewards that differ, beside how many chance would give: whether failure is fixed per prompt.

A group whose rewards are all equal has no advantage. Where every answer is an independent draw, a group of G differs
with probability 1 - p^G - (1 - p)^G; where each prompt is always answered rightly or always wrongly, none differs.
Source: Exploration Hacking, arXiv:2604.28182, for what happens; the closed form is elementary.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Rewards = Sequence[float]
"""Of one group's rollouts."""


def informative_rate(p: float, size: int) -> float:
    """Return how likely a group of `size` independent answers, each right with probability p, is to hold both kinds.

    >>> informative_rate(0.5, 2), informative_rate(1.0, 8)
    (0.5, 0.0)
    """
    return 1.0 - p**size - (1.0 - p) ** size


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCensus:
    """What was counted over groups of two or more rollouts; whatever the rewards' values are."""

    groups: int
    mixed: int
    """Groups whose rewards differ."""
    expected: float
    """Share of mixed groups if every reward were drawn independently from all rewards together; NaN without a group."""

    @property
    def observed(self) -> float:
        """Share of mixed groups; NaN without a group."""
        return self.mixed / self.groups if self.groups else math.nan

    @property
    def determinism(self) -> float:
        """The determinism index 1 - observed / expected; NaN where no mixed group is expected.

        0: groups are as mixed as chance makes them. 1: no group is mixed though rewards differ between prompts, so
        that more samples of the same policy teach nothing. Prompts of unequal difficulty lie between.
        """
        return 1.0 - self.observed / self.expected if self.expected > 0.0 else math.nan


def group_census(groups: Sequence[Rewards]) -> GroupCensus:
    """Count groups; those with fewer than two rewards compare nothing and are left out.

    >>> group_census([(0.0, 0.0), (1.0, 1.0)]).determinism
    1.0
    """
    kept = [tuple(group) for group in groups if len(group) > 1]
    values = Counter(reward for group in kept for reward in group)
    total = sum(values.values())
    shares = [count / total for _, count in sorted(values.items())]
    sizes = Counter(len(group) for group in kept)
    chance = [count * (1.0 - math.fsum(share**size for share in shares)) for size, count in sorted(sizes.items())]
    expected = math.fsum(chance) / len(kept) if kept else math.nan
    return GroupCensus(
        groups=len(kept),
        mixed=sum(any(reward != group[0] for reward in group) for group in kept),
        # One value has share 1: what is left of 1 - 1 is exactly 0.
        expected=expected,
    )
