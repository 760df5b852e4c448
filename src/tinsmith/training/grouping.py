"""From groups of rollouts to what is learned from them: rewards, advantages, and what is left out and why.

Axes: a step has groups, a group has rollouts of one prompt. A failed rollout has no reward; a group with fewer than two
left cannot be compared and is left out, and counted. So is one whose rewards are all equal, where that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinsmith.ops.advantages import ADVANTAGES, Advantage
from tinsmith.tasks.paper import Item
from tinsmith.tasks.rewards import Reward, Terms, rounded_sum
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
    def item(self) -> Item:
        """The paper asked about."""
        return self.scored[0].rollout.item if self.scored else self.failures[0].item

    @property
    def compared(self) -> list[Scored]:
        """The rollouts that are trained on."""
        return [one for one in self.scored if one.advantage is not None]

    @property
    def learned(self) -> bool:
        """Whether any of its rollouts is trained on."""
        return bool(self.compared)


def score_groups(
    groups: Sequence[Sequence[Rollout | Failure]],
    reward: Reward,
    *,
    advantage: Advantage,
    zero_variance_filter: bool,
    without_task: bool = False,
) -> list[ScoredGroup]:
    """Reward every rollout by the state the reward had before this step, then let the step enter that state.

    `without_task` leaves the task term out of the advantages and of nothing else: someone else carries its gradient.
    """
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
            without_task,
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
    without_task: bool,
) -> ScoredGroup:
    rewards = np.array([each.total for each in terms], dtype=np.float64)
    informative = len(set(rewards.tolist())) > 1
    advantages: list[float | None] = [None] * len(kept)
    if len(kept) > 1 and (informative or not zero_variance_filter):
        compared = np.array([_besides_task(each) for each in terms]) if without_task else rewards
        advantages = [float(value) for value in ADVANTAGES[advantage](compared)]
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


def _besides_task(terms: Terms) -> float:
    return rounded_sum(terms.parse, terms.contract, terms.think)
