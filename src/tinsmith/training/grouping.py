"""From groups of rollouts to what is learned from them: rewards, advantages, and what is left out and why.

Axes: a step has groups, a group has rollouts of one prompt. A failed rollout has no reward; a group with fewer than two
left cannot be compared and is left out, and counted. So is one whose rewards are all equal, where that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinsmith.ops.advantages import ADVANTAGES, Advantage
from tinsmith.tasks.rewards import Reward, Terms
from tinsmith.training.rollouts import Failure, Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """A rollout with its reward, and its advantage over its group; None where the group was left out."""

    rollout: Rollout
    terms: Terms
    advantage: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredGroup:
    """One prompt's rollouts."""

    gold: str
    scored: tuple[Scored, ...]
    failures: tuple[Failure, ...]
    informative: bool
    """Whether its rewards differ: otherwise its gradient is zero."""

    @property
    def learned(self) -> bool:
        """Whether it is trained on."""
        return any(one.advantage is not None for one in self.scored)


def score_groups(
    groups: Sequence[Sequence[Rollout | Failure]],
    reward: Reward,
    *,
    advantage: Advantage,
    zero_variance_filter: bool,
) -> list[ScoredGroup]:
    """Reward every rollout by the state the reward had before this step, then let the step enter that state."""
    rollouts = [[one for one in group if isinstance(one, Rollout)] for group in groups]
    flat = [one for group in rollouts for one in group]
    golds, answers = [one.item.gold for one in flat], [one.answer for one in flat]
    terms = iter(reward.score(golds, answers))
    scored = [
        _score_group(
            group,
            [next(terms) for _ in kept],
            [one for one in group if isinstance(one, Failure)],
            kept,
            advantage,
            zero_variance_filter,
        )
        for group, kept in zip(groups, rollouts, strict=True)
    ]
    reward.update(golds, answers)
    return scored


def _score_group(
    group: Sequence[Rollout | Failure],
    terms: list[Terms],
    failures: list[Failure],
    kept: list[Rollout],
    advantage: Advantage,
    zero_variance_filter: bool,
) -> ScoredGroup:
    rewards = np.array([each.total for each in terms], dtype=np.float64)
    informative = len(set(rewards.tolist())) > 1
    advantages: list[float | None] = [None] * len(kept)
    if len(kept) > 1 and (informative or not zero_variance_filter):
        advantages = [float(value) for value in ADVANTAGES[advantage](rewards)]
    scored = (
        Scored(rollout=one, terms=each, advantage=value)
        for one, each, value in zip(kept, terms, advantages, strict=True)
    )
    return ScoredGroup(
        gold=group[0].item.gold,
        scored=tuple(scored),
        failures=tuple(failures),
        informative=informative,
    )
