"""Finds the policy at which a reward that depends on the whole confusion has nothing left to pay.

Frank-Wolfe over the policies on given posteriors: answer every paper with the label that the reward,
as it is now, pays best; mix that rule into the policy with weight 2 / (t + 3); repeat. The policy stays
a distribution over labels for every paper, as the optimum of such a reward usually is. For a reward that
is the gradient of a score this climbs the score; for others it is fictitious play on the reward's own game.
Sources: Frank and Wolfe (1956); Narasimhan et al., ICML 2015, for scores of the confusion matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.incentives.posteriors import Policy, Posteriors
from tinsmith.stats.rates import FloatArray

Functional = Callable[[FloatArray], FloatArray]
"""Confusion shares C (K, K) -> rewards r (K, K): what each answer is paid while the confusion is C."""

STEPS = 4000
PATIENCE = 2000
_TIE = 1e-12
_SETTLED = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Where the ascent ended.

    `gap` is what the best rule would earn above this policy at the rewards `matrix` it now gets,
    per answer, divided by the spread of those rewards: 0 where nothing is left to gain.
    """

    policy: Policy
    matrix: FloatArray
    gap: float


def best_rule(posteriors: Posteriors, matrix: FloatArray) -> NDArray[np.intp]:
    """Return argmax_k rho_k(x) for every kind, (N,); of labels that pay the same, the first."""
    rho = posteriors.expected(matrix)
    return (rho >= rho.max(axis=1, keepdims=True) - _tie(matrix)).argmax(axis=1)


def tied_share(posteriors: Posteriors, matrix: FloatArray) -> float:
    """Return the share of papers for which two labels pay the same best."""
    rho = posteriors.expected(matrix)
    best = (rho >= rho.max(axis=1, keepdims=True) - _tie(matrix)).sum(axis=1)
    return float(posteriors.weights[best > 1].sum())


def ascend(posteriors: Posteriors, functional: Functional, start: FloatArray, steps: int = STEPS) -> Rest:
    """Follow the reward from the policy `start` (N, K) for `steps` steps, or until it rests.

    Its distance from the fixed point falls like 1 / steps: with 4000, shares are right to about 0.001.
    """
    policy, shares = start.copy(), posteriors.shares(start)
    kinds = np.arange(posteriors.num_kinds)
    matrix = functional(shares)
    for t in range(steps):
        rule = best_rule(posteriors, matrix)
        target = posteriors.rule_shares(rule)
        if _gap(matrix, shares, target) < _SETTLED:
            break
        step = 2.0 / (t + 3.0)
        policy *= 1.0 - step
        policy[kinds, rule] += step
        shares = shares + step * (target - shares)
        matrix = functional(shares)
    target = posteriors.rule_shares(best_rule(posteriors, matrix))
    return Rest(Policy.of(posteriors, policy), matrix, _gap(matrix, shares, target))


def rests_at(posteriors: Posteriors, functional: Functional, label: int) -> bool:
    """Whether always answering `label` is a fixed point: once there, the reward pays no other answer more.

    A reward with duals is asked again until it pays the same twice, at most PATIENCE times.
    """
    shares = posteriors.rule_shares(np.full(posteriors.num_kinds, label))
    matrix = functional(shares)
    for _ in range(PATIENCE):
        before, matrix = matrix, functional(shares)
        if np.array_equal(before, matrix):
            break
    rho = posteriors.expected(matrix)
    return bool((rho[:, label] >= rho.max(axis=1) - _tie(matrix)).all())


def _gap(matrix: FloatArray, shares: FloatArray, target: FloatArray) -> float:
    spread = float(matrix.max() - matrix.min())
    return float((matrix * (target - shares)).sum()) / spread if spread > 0.0 else 0.0


def _tie(matrix: FloatArray) -> float:
    return _TIE * max(float(np.abs(matrix).max()), 1.0)
