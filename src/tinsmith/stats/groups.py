"""Groups of rollouts: counts with and without gradient, in all and by true label, and the reasons.

A group whose rewards are all equal has no advantage. Where every answer is an independent draw, a group of G differs
with probability 1 - p^G - (1 - p)^G; where each prompt is always answered rightly or always wrongly, none differs.
By Cauchy and Schwarz the task's gradient at a prompt is at most the deviation of its rewards times the size of the
score: where rewards hardly differ, an entropy bonus, a penalty or noise is all that still acts.
Sources: Exploration Hacking, arXiv:2604.28182; RAGEN-2, arXiv:2604.06268, sec. 4 (the filter and its early stop).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Rewards = Sequence[float]  # Of one group's rollouts.


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCensus:
    """Counts over groups of two or more rollouts, whatever the rewards' values are."""

    groups: int
    mixed: int  # Groups whose rewards differ.
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
    """Count groups; those with fewer than two rewards are left out.

    >>> group_census([(0.0, 0.0), (1.0, 1.0)]).determinism
    1.0
    """
    compared = [tuple(group) for group in groups if len(group) > 1]
    values = Counter(reward for group in compared for reward in group)
    total = sum(values.values())
    shares = [count / total for _, count in sorted(values.items())]
    sizes = Counter(len(group) for group in compared)
    chance = [count * (1.0 - math.fsum(share**size for share in shares)) for size, count in sorted(sizes.items())]
    expected = math.fsum(chance) / len(compared) if compared else math.nan
    return GroupCensus(
        groups=len(compared),
        mixed=sum(any(reward != group[0] for reward in group) for group in compared),
        # One value has share 1: what is left of 1 - 1 is exactly 0.
        expected=expected,
    )


@dataclass(frozen=True, slots=True)
class LabelGroups:
    """Groups of one true label."""

    groups: int = 0
    informative: int = 0  # Groups whose rewards are not all equal.
    all_right: int = 0
    all_wrong: int = 0

    @classmethod
    def of(cls, rewards: Sequence[float], right: Sequence[bool]) -> LabelGroups:
        """Count one prompt's rollouts, failed ones left out; fewer than two compare nothing, and count as no group."""
        if len(rewards) < 2:
            return cls()
        differs = any(reward != rewards[0] for reward in rewards)
        return cls(groups=1, informative=int(differs), all_right=int(all(right)), all_wrong=int(not any(right)))

    def __add__(self, other: LabelGroups) -> LabelGroups:
        return LabelGroups(
            self.groups + other.groups,
            self.informative + other.informative,
            self.all_right + other.all_right,
            self.all_wrong + other.all_wrong,
        )

    @property
    def informative_rate(self) -> float:
        """Share of groups with a gradient; NaN without a group."""
        return self.informative / self.groups if self.groups else math.nan


SLACK = 0.01  # How much of the sum the kept ones may lack, as published for rewards of 0 and 1.
FIRST_STEPS = 10
FLAT_SHARE = 0.1  # Of the mean variance of the first steps ...
FLAT_STEPS = 10  # ... in so many steps running: nothing is left to learn from.


def deviation(rewards: Sequence[float]) -> float:
    """Return the population standard deviation of a group's rewards; exactly 0 for equal rewards."""
    if not rewards or all(reward == rewards[0] for reward in rewards):
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))


def chosen_groups(deviations: Sequence[float], top_p: float, scale: float = 1.0) -> tuple[bool, ...]:
    """Return a mask of the groups with the largest deviations, up to `top_p` of their sum, less 0.01 of `scale`.

    `scale` is what lies between the least and the largest reward, so that rewards in other units keep the same groups.

    A group whose rewards do not differ is never kept; of equal ones the earlier is taken first.

    >>> chosen_groups([0.5, 0.5, 0.3, 0.1, 0.0], 0.9)
    (True, True, True, False, False)
    """
    enough = top_p * math.fsum(deviations) - SLACK * scale
    by_size = sorted(range(len(deviations)), key=lambda place: (-deviations[place], place))
    taken: list[float] = []
    chosen: set[int] = set()
    for place in by_size:
        if deviations[place] <= 0.0 or (taken and math.fsum(taken) >= enough):
            break
        taken.append(deviations[place])
        chosen.add(place)
    return tuple(place in chosen for place in range(len(deviations)))


@dataclass(slots=True, kw_only=True)
class FlatRewards:
    """Early stop when reward variance within groups stays below a tenth of its first value for ten steps."""

    first: tuple[float, ...] = ()  # Mean variances of the first steps.
    streak: int = 0

    def observe(self, groups: Sequence[Sequence[float]]) -> bool:
        """Observe a step's groups; return True if training should stop. Failed rollouts have no reward to be equal."""
        variances = [deviation(rewards) ** 2 for rewards in groups if len(rewards) > 1]
        if not variances:
            return False
        variance = math.fsum(variances) / len(variances)
        if len(self.first) < FIRST_STEPS:
            self.first = (*self.first, variance)
            return False
        least = FLAT_SHARE * math.fsum(self.first) / len(self.first)
        self.streak = self.streak + 1 if variance < least else 0
        return self.streak >= FLAT_STEPS
