"""Which groups of a step carry a signal, by the spread of their rewards, and when a run has none left.

By Cauchy and Schwarz the task's gradient at a prompt is at most the deviation of its rewards times the size of the
score: where rewards hardly differ, an entropy bonus, a penalty or noise is all that still acts.
Source: RAGEN-2, arXiv:2604.06268, sec. 4 (the filter, top-p and "linear") and its early stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SLACK = 0.01
"""Of the sum: how much of it the kept ones may lack, as published."""
FIRST_STEPS = 10
FLAT_SHARE = 0.1
"""Of the mean variance of the first steps ..."""
FLAT_STEPS = 10
"""... in so many steps running: nothing is left to learn from."""


def deviation(rewards: Sequence[float]) -> float:
    """Return the population standard deviation of a group's rewards; exactly 0 where they are equal."""
    if not rewards or all(reward == rewards[0] for reward in rewards):
        return 0.0
    mean = math.fsum(rewards) / len(rewards)
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / len(rewards))


def kept_groups(deviations: Sequence[float], top_p: float) -> tuple[bool, ...]:
    """Return which groups to keep: those with the largest deviation, until they have `top_p` of the sum, less 0.01.

    A group whose rewards do not differ is never kept; of equal ones the earlier is taken first.

    >>> kept_groups([0.5, 0.5, 0.3, 0.1, 0.0], 0.9)
    (True, True, True, False, False)
    """
    enough = top_p * math.fsum(deviations) - SLACK
    by_size = sorted(range(len(deviations)), key=lambda place: (-deviations[place], place))
    kept: list[float] = []
    chosen: set[int] = set()
    for place in by_size:
        if deviations[place] <= 0.0 or (kept and math.fsum(kept) >= enough):
            break
        kept.append(deviations[place])
        chosen.add(place)
    return tuple(place in chosen for place in range(len(deviations)))


@dataclass(slots=True, kw_only=True)
class FlatRewards:
    """Whether the variance of rewards within groups has gone: below a tenth of what it was first, ten steps running."""

    first: tuple[float, ...] = ()
    """Mean variances of the first steps."""
    streak: int = 0

    def saw(self, groups: Sequence[Sequence[float]]) -> bool:
        """Take a step's groups in; return whether it is time to stop."""
        found = [deviation(rewards) ** 2 for rewards in groups]
        variance = math.fsum(found) / len(found) if found else 0.0
        if len(self.first) < FIRST_STEPS:
            self.first = (*self.first, variance)
            return False
        least = FLAT_SHARE * math.fsum(self.first) / len(self.first)
        self.streak = self.streak + 1 if variance <= least else 0
        return self.streak >= FLAT_STEPS
