"""Optimum of a reward: the incentive analyser applied to a reward, whether it is a table or reacts."""

from __future__ import annotations

from collections.abc import Callable

from tinsmith.lab.rewards.reward import Reward, followed
from tinsmith.stats.incentives.policies import Optimum, reacting_optimum, table_optimum
from tinsmith.stats.incentives.posteriors import Posteriors


def reward_optimum(posteriors: Posteriors, make: Callable[[], Reward]) -> Optimum:
    """Return the optimum of a reward that `make` gives at its start; tables exactly, others followed."""
    reward = make()
    if reward.objective is not None:
        return reacting_optimum(posteriors, lambda: followed(make()))
    return table_optimum(posteriors, reward.per_label())
