"""From groups of rollouts to what is learned from them: rewards, advantages, and what is left out and why.

Axes: a step has groups, a group has rollouts of one prompt. A failed rollout has no reward; a group with fewer than two
left cannot be compared and is left out, and counted. So is one whose rewards are all equal, where that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.rollouts import A, Failure, I, Rollout
from tinsmith.lab.terms import Terms
from tinsmith.ops.advantages import ADVANTAGES, Advantage
from tinsmith.ops.forks import turn_advantages
from tinsmith.stats.groups import deviation, kept_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored(Generic[I, A]):
    """A rollout with its reward, and its advantage over its group; None where the group was left out."""

    rollout: Rollout[I, A]
    terms: Terms
    advantage: float | None
    by_turn: tuple[float, ...] | None = None
    """What each turn is trained with instead, where turns have advantages of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredGroup(Generic[I, A]):
    """One prompt's rollouts."""

    item: I
    scored: tuple[Scored[I, A], ...]
    failures: tuple[Failure[I], ...]
    informative: bool
    """Whether its rewards differ: otherwise its gradient is zero."""

    @property
    def compared(self) -> list[Scored[I, A]]:
        """The rollouts that are trained on."""
        return [one for one in self.scored if one.advantage is not None]

    @property
    def learned(self) -> bool:
        """Whether any of its rollouts is trained on."""
        return bool(self.compared)


def score_groups(
    groups: Sequence[Sequence[Rollout[I, A] | Failure[I]]],
    score: Callable[[Sequence[Rollout[I, A]]], Sequence[Terms]],
    *,
    advantage: Advantage,
    zero_variance_filter: bool,
    compared_by: Callable[[Terms], float] | None = None,
    by_turn: bool = False,
) -> list[ScoredGroup[I, A]]:
    """Reward every rollout, and compare it with its group.

    `compared_by` says which part of a reward the advantages are made of (None: all of it), where someone else carries
    the gradient of the rest; which groups are informative is always told by the whole.
    """
    kept = [[one for one in group if isinstance(one, Rollout)] for group in groups]
    terms = iter(score([one for group in kept for one in group]))
    return [
        _score_group(
            group,
            rollouts,
            [next(terms) for _ in rollouts],
            advantage,
            zero_variance_filter,
            compared_by or _whole,
            by_turn,
        )
        for group, rollouts in zip(groups, kept, strict=True)
    ]


def left_out_by_spread(groups: Sequence[ScoredGroup[I, A]], top_p: float) -> list[ScoredGroup[I, A]]:
    """Return the groups, those of little spread without advantages: see `kept_groups`."""
    spread = [deviation([one.terms.total for one in group.scored]) for group in groups]
    return [
        group if kept else replace(group, scored=tuple(_left_out(one) for one in group.scored))
        for group, kept in zip(groups, kept_groups(spread, top_p), strict=True)
    ]


def _left_out(one: Scored[I, A]) -> Scored[I, A]:
    return replace(one, advantage=None, by_turn=None)


def _score_group(
    group: Sequence[Rollout[I, A] | Failure[I]],
    kept: list[Rollout[I, A]],
    terms: list[Terms],
    advantage: Advantage,
    zero_variance_filter: bool,
    compared_by: Callable[[Terms], float],
    by_turn: bool,
) -> ScoredGroup[I, A]:
    informative = len({each.total for each in terms}) > 1
    advantages: list[float | None] = [None] * len(kept)
    turns: list[tuple[float, ...] | None] = [None] * len(kept)
    if len(kept) > 1 and (informative or not zero_variance_filter):
        compared = np.array([compared_by(each) for each in terms], dtype=np.float64)
        advantages = [float(value) for value in ADVANTAGES[advantage](compared)]
        if by_turn:
            turns = _by_turn(kept, compared, advantage)
    scored = (
        Scored(rollout=one, terms=each, advantage=value, by_turn=by_turns)
        for one, each, value, by_turns in zip(kept, terms, advantages, turns, strict=True)
    )
    return ScoredGroup(
        item=group[0].item,
        scored=tuple(scored),
        failures=tuple(one for one in group if isinstance(one, Failure)),
        informative=informative,
    )


def _by_turn(
    kept: Sequence[Rollout[I, A]], returns: NDArray[np.float64], rule: Advantage
) -> list[tuple[float, ...] | None]:
    """Return what each turn of each conversation is trained with; forks of one first reply stand side by side."""
    rows = [list(places) for _, places in groupby(range(len(kept)), lambda at: kept[at].sample)]
    found = turn_advantages([returns[row] for row in rows], rule)
    turns: list[tuple[float, ...] | None] = []
    for first, second, row in zip(found.first_F, found.second_FK, rows, strict=True):
        for value, at in zip(second, row, strict=True):
            turns.append((float(first), float(value))[: len(kept[at].turns)])
    return turns


def _whole(terms: Terms) -> float:
    return terms.total
