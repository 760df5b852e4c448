"""Which policy a reward makes optimal, computed before anything is trained.

A reward that pays every answer by itself is linear in the policy: its optimum answers each paper with
argmax_k sum_y p_y(x) r[y, k], and whether a label is ever said depends on the posteriors alone. A reward
that depends on the confusion of all answers is followed to where it rests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tinsmith.stats.incentives.posteriors import (
    STEPS,
    Functional,
    Policy,
    Posteriors,
    Rest,
    ascend,
    best_rule,
    rests_at,
    starts,
    tied_share,
)
from tinsmith.stats.rates import ClassMetric, FloatArray
from tinsmith.types.errors import ConfigError

DEAD_SHARE = 0.01  # A label with less of the answers than this is lost.
RULING_SHARE = 0.75  # A label with more of the answers than this rules; the collapse monitor's limit.
_ANOTHER = 0.02
_AT_REST = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """What a reward makes optimal on given posteriors."""

    policy: Policy
    greedy: Policy  # Always the likeliest answer of `policy`: what greedy decoding shows of it.
    matrix: FloatArray  # Rewards r (K, K) at the optimum.
    reward: float  # Expected reward of a valid answer at the optimum.
    reacts: bool  # Whether the reward depends on the confusion.
    gap: float  # Share of the rewards' spread that is left to gain; above 0.001 the optimum is not settled.
    tied: float  # Share of papers with two equally paid answers.
    resting_collapses: tuple[str, ...]
    """Labels onto which a collapse, once there, is paid at least as well as any other answer."""
    others: tuple[Policy, ...] = ()  # Other policies at which the reward rests, from other beginnings.

    @property
    def dead(self) -> tuple[str, ...]:
        """Labels that the optimum does not say."""
        return _dead_of(self.policy)

    @property
    def ruling(self) -> tuple[str, ...]:
        """The label that has most of the optimum's answers, if one has."""
        return _labels_where(self.policy, lambda share: share > RULING_SHARE)

    @property
    def settled(self) -> bool:
        """Whether the search came to rest."""
        return self.gap <= _AT_REST

    def warnings(self) -> tuple[str, ...]:
        """Return what one should know before training with this reward, a sentence each."""
        found: list[str] = []
        shares = dict(zip(self.policy.labels, _said(self.policy).tolist(), strict=True))
        for label in self.ruling:
            lost = f"; {' and '.join(self.dead)} die in it" if self.dead else ""
            found.append(
                f"the optimum answers {label} to {shares[label]:.0%} of the papers{lost}: that "
                "collapse is what this reward pays for"
            )
        for label in () if self.ruling else self.dead:
            found.append(
                f"{label} dies: the optimum gives it {shares[label]:.1%} of the answers, so losing "
                "it is the reward's aim and no failure of training"
            )
        found += [
            f"greedy decoding never says {label}, though the optimum does: evaluate sampled answers"
            for label in _dead_of(self.greedy)
            if label not in self.dead
        ]
        if self.reacts and self.resting_collapses:
            found.append(f"a collapse onto {' or '.join(self.resting_collapses)} would not be undone by this reward")
        if not self.settled:
            found.append(f"the search did not settle (gap {self.gap:.4f}): read the figures as rough")
        if self.tied > DEAD_SHARE:
            found.append(f"for {self.tied:.0%} of the papers two answers pay the same; the first label was taken")
        return tuple(found)


def table_optimum(posteriors: Posteriors, matrix: FloatArray) -> Optimum:
    """Return what a fixed table of rewards r (K, K), truth in rows, makes optimal. Exact."""
    r = checked_matrix(posteriors, matrix)
    policy = Policy.of_rule(posteriors, best_rule(posteriors, r))
    rest = Rest(policy, r, 0.0)
    return _optimum(posteriors, lambda: lambda _: r, rest, reacts=False, others=())


def reacting_optimum(posteriors: Posteriors, make: Callable[[], Functional], steps: int = STEPS) -> Optimum:
    """Return where a reward that depends on the confusion leads from uniformly random answers.

    `make` gives the reward at its start; one that remembers more than the confusion (duals) may change
    with every call. It is also followed from the likeliest label and from every collapse; ends whose
    shares differ are told as `others`.
    """

    def checked() -> Functional:
        functional = make()
        return lambda shares: checked_matrix(posteriors, functional(shares))

    first, *beginnings = starts(posteriors)
    found = [ascend(posteriors, checked(), first, steps)]
    for start in beginnings:
        rest = ascend(posteriors, checked(), start, max(steps // 4, 1))
        apart = [np.abs(_said(rest.policy) - _said(one.policy)).max() for one in found]
        if min(apart) > _ANOTHER:
            found.append(rest)
    others = tuple(rest.policy for rest in found[1:])
    return _optimum(posteriors, checked, found[0], reacts=True, others=others)


def checked_matrix(posteriors: Posteriors, matrix: FloatArray) -> FloatArray:
    """Return the rewards as float64."""
    r, k = np.asarray(matrix, np.float64), len(posteriors.labels)
    if r.shape != (k, k) or not np.isfinite(r).all():
        what = "a reward is one finite number for every true label (rows) and answer (columns)"
        allowed = f"({k}, {k}) for the labels {', '.join(posteriors.labels)}"
        raise ConfigError(what, field="matrix", value=r.tolist() if r.size <= 16 else r.shape, allowed=allowed)
    return r


def _optimum(
    posteriors: Posteriors, make: Callable[[], Functional], rest: Rest, *, reacts: bool, others: tuple[Policy, ...]
) -> Optimum:
    collapses = [label for i, label in enumerate(posteriors.labels) if rests_at(posteriors, make(), i)]
    return Optimum(
        policy=rest.policy,
        greedy=rest.policy.greedy(posteriors),
        matrix=rest.matrix,
        reward=float((rest.matrix * rest.policy.shares).sum()),
        reacts=reacts,
        gap=rest.gap,
        tied=0.0 if reacts else tied_share(posteriors, rest.matrix),
        resting_collapses=tuple(collapses),
        others=others,
    )


def _said(policy: Policy) -> FloatArray:
    return policy.class_score(ClassMetric.PREDICTED_SHARE)


def _dead_of(policy: Policy) -> tuple[str, ...]:
    return _labels_where(policy, lambda share: share < DEAD_SHARE)


def _labels_where(policy: Policy, holds: Callable[[float], bool]) -> tuple[str, ...]:
    shares = _said(policy).tolist()
    return tuple(label for label, share in zip(policy.labels, shares, strict=True) if holds(share))


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """Per kind of paper, in ascending order, the weight on `label` above which it is answered so.

    `turns` (N,) has inf for papers that no weight turns; `weights` (N,) are the papers' shares.
    """

    label: str
    turns: FloatArray
    weights: FloatArray

    def share_at(self, weight: float) -> float:
        """Return the predicted share of the label at a class weight.

        >>> Sensitivity("d", np.array([1.0, 2.0]), np.array([0.5, 0.5])).share_at(1.5)
        0.5
        """
        return float(self.weights[self.turns < weight].sum())

    def weight_for(self, share: float) -> float:
        """Return the smallest weight at or just above which the label has `share` of the answers; inf for none."""
        reached = np.cumsum(self.weights) >= share - 1e-12
        return float(self.turns[reached.argmax()]) if reached.any() else math.inf

    @property
    def window(self) -> tuple[float, float]:
        """The weights between which the label's share goes from a tenth to nine tenths."""
        return self.weight_for(0.1), self.weight_for(0.9)

    @property
    def width(self) -> float:
        """Ratio of the window's upper end to its lower end; close to 1 is a knife-edge."""
        low, high = self.window
        return high / low if low > 0.0 and math.isfinite(high) else math.inf


def sensitivity(posteriors: Posteriors, matrix: FloatArray, label: str) -> Sensitivity | None:
    """Return at which weights on `label` its share of the optimum's answers turns.

    Paper x turns at w(x) = max over k != d of sum_{y != d} p_y (r[y, k] - r[y, d]) / (p_d (r[d, d] - r[d, k])).
    For r = a + g [y = k] that is max p_k / p_d, whatever a and g > 0. None where the reward does not pay more for d
    than for another answer when d is true, so that no weight on d brings it out.
    """
    d = posteriors.labels.index(label)
    p = posteriors.probabilities
    others = [k for k in range(len(posteriors.labels)) if k != d]
    turns = np.full(posteriors.num_kinds, -math.inf)
    for k in others:
        gain = float(matrix[d, d] - matrix[d, k])
        if gain <= 0.0:
            return None
        lost = np.zeros(posteriors.num_kinds)
        for y in others:
            lost += p[:, y] * (matrix[y, k] - matrix[y, d])
        paid = p[:, d] * gain
        # Where d is impossible, a weight changes nothing: it is never or always answered.
        turn = np.where(lost < 0.0, 0.0, math.inf)
        np.divide(lost, paid, out=turn, where=paid > 0.0)
        turns = np.maximum(turns, turn)
    order = np.argsort(turns, kind="stable")
    return Sensitivity(label, np.maximum(turns[order], 0.0), posteriors.weights[order])
