"""What a reward makes optimal: the incentive analyser applied to a reward, whether it is a table or reacts."""

from __future__ import annotations

from collections.abc import Callable

from tinsmith.analysis.incentives import Optimum, reacting_optimum, table_optimum
from tinsmith.analysis.posteriors import Posteriors
from tinsmith.tasks.rewards import Reward
from tinsmith.tasks.set_rewards import SetReward, followed


def reward_optimum(posteriors: Posteriors, make: Callable[[], Reward]) -> Optimum:
    """Return the optimum of a reward that `make` gives at its start; tables exactly, others followed."""
    reward = make()
    if isinstance(reward, SetReward):
        return reacting_optimum(posteriors, lambda: followed(make()))
    return table_optimum(posteriors, reward.per_label())
