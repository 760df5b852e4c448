"""Which groups of rollouts carry a gradient, counted by true label, and why the others do not.

A group whose rewards are all equal has no advantage. Class by class, the rate of informative groups
says whether a lost label can still come back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True)
class Group:
    """One prompt's rollouts, failed ones left out: rewards and whether the label was right, (G,) each."""

    gold: str
    rewards: tuple[float, ...]
    right: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class LabelGroups:
    """Groups of one true label."""

    groups: int = 0
    informative: int = 0
    """Groups whose rewards are not all equal."""
    all_right: int = 0
    all_wrong: int = 0
    samples: int = 0
    right_samples: int = 0
    size_counts: tuple[tuple[int, int], ...] = ()
    """Pairs (group size, groups of that size), ascending."""

    def __add__(self, other: LabelGroups) -> LabelGroups:
        sizes = dict(self.size_counts)
        for size, count in other.size_counts:
            sizes[size] = sizes.get(size, 0) + count
        return LabelGroups(
            self.groups + other.groups,
            self.informative + other.informative,
            self.all_right + other.all_right,
            self.all_wrong + other.all_wrong,
            self.samples + other.samples,
            self.right_samples + other.right_samples,
            tuple(sorted(sizes.items())),
        )

    @property
    def informative_rate(self) -> float:
        """Share of groups with a gradient; NaN without a group."""
        return self.informative / self.groups if self.groups else math.nan

    @property
    def mixed_rate(self) -> float:
        """Share of groups with right and wrong answers in them; NaN without a group."""
        if not self.groups:
            return math.nan
        return (self.groups - self.all_right - self.all_wrong) / self.groups

    @property
    def expected_mixed_rate(self) -> float:
        """Mixed share if every answer were an independent coin: 1 - p^G - (1 - p)^G, p the share right.

        Source: Exploration Hacking, arXiv:2604.28182 (mechanism: an always-failing prompt never pays).
        """
        if not self.groups:
            return math.nan
        p = self.right_samples / self.samples
        mixed = (count * (1.0 - p**size - (1.0 - p) ** size) for size, count in self.size_counts)
        return math.fsum(mixed) / self.groups

    @property
    def determinism(self) -> float:
        """Dead-group determinism index 1 - observed / expected mixed share; NaN where none is expected.

        0: the dead groups are what chance makes of the share right. 1: every paper is always right or
        always wrong, so that more samples will not help. Below 0: more mixed than chance.
        """
        expected = self.expected_mixed_rate
        return 1.0 - self.mixed_rate / expected if expected > 0.0 else math.nan


def census(labels: Sequence[str], groups: Sequence[Group]) -> Mapping[str, LabelGroups]:
    """Count groups by true label; those of fewer than two rollouts compare nothing and are left out."""
    counted = dict.fromkeys(labels, LabelGroups())
    for group in groups:
        if group.gold not in counted or len(group.rewards) != len(group.right):
            raise DataError(
                "a group has one true label, and a reward for every answer",
                field="group",
                value=group.gold,
                allowed=", ".join(labels),
            )
        size, right = len(group.rewards), sum(group.right)
        if size < 2:
            continue
        counted[group.gold] += LabelGroups(
            groups=1,
            informative=int(any(reward != group.rewards[0] for reward in group.rewards)),
            all_right=int(right == size),
            all_wrong=int(right == 0),
            samples=size,
            right_samples=right,
            size_counts=((size, 1),),
        )
    return counted
