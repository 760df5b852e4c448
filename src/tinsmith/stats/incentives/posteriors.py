"""Posteriors of each paper's label, policies on them, and the best that can be had for a score.

A policy answers paper x with label k with probability pi_k(x). All that a reward sees of it are its
confusion shares C_yk = sum_x w_x p_y(x) pi_k(x); sums run in a fixed order, so that a tie is a tie on
every machine.

Frank-Wolfe over the policies on given posteriors: answer every paper with the label that the reward, as it is now, pays
best; mix that rule into the policy with weight 2 / (t + 3); repeat. The policy stays a distribution over labels for
every paper. For a reward that is the gradient of a score this climbs the score; for others it is fictitious play.
Sources: Frank and Wolfe (1956); Narasimhan et al., ICML 2015, for scores of the confusion matrix.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.rates import CLASS_SCORES, SCORES, ClassMetric, FloatArray, Metric
from tinsmith.types.errors import ConfigError, DataError

_NOT_ONE = 1e-3  # How far a row may be from summing to 1: four printed decimals; rows are normalised then.


@dataclass(frozen=True, slots=True, eq=False)
class Posteriors:
    """P(y | x) of N papers or kinds of papers: `probabilities` (N, K), `weights` (N,) summing to 1.

    Build it with `Posteriors.of`, which checks and normalises.
    """

    labels: tuple[str, ...]
    probabilities: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, labels: Sequence[str], probabilities: FloatArray, weights: FloatArray | None = None) -> Posteriors:
        """Check N rows of K probabilities, and weights (default: all equal)."""
        p = np.asarray(probabilities, np.float64)
        if p.ndim != 2 or p.shape[0] == 0 or p.shape[1] != len(labels) or len(labels) < 2:
            what = "posteriors are one row a paper and one column a label"
            allowed = f"(N, {len(labels)}) with N >= 1 for the labels {', '.join(labels)}"
            raise DataError(what, field="shape", value=p.shape, allowed=allowed)
        sums = p.sum(axis=1)
        wrong = np.flatnonzero(~(np.abs(sums - 1.0) <= _NOT_ONE) | ~(p >= 0).all(axis=1))
        if wrong.size:
            row = int(wrong[0])
            what, allowed = f"row {row} is not a distribution over the labels", "probabilities >= 0 that sum to 1"
            fix = "give probabilities, not logits or percentages"
            raise DataError(
                what, field=f"row {row}", value=[round(value, 6) for value in p[row].tolist()], allowed=allowed, fix=fix
            )
        w = np.ones(len(p)) if weights is None else np.asarray(weights, np.float64)
        if w.shape != (len(p),) or not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
            what = "weights are one number >= 0 a row, not all zero"
            raise DataError(what, field="weights", value=w.shape, allowed=f"({len(p)},)")
        return cls(tuple(labels), p / sums[:, None], w / w.sum())

    @property
    def num_kinds(self) -> int:
        """N."""
        return len(self.weights)

    @property
    def prior(self) -> FloatArray:
        """The share of papers of each label, (K,)."""
        return (self.weights[:, None] * self.probabilities).sum(axis=0)

    def expected(self, matrix: FloatArray) -> FloatArray:
        """Return rho_k(x) = sum_y p_y(x) r[y, k], (N, K), for rewards r (K, K)."""
        rho = np.zeros_like(self.probabilities)
        for y in range(len(self.labels)):
            rho += self.probabilities[:, y, None] * matrix[y]
        return rho

    def shares(self, policy: FloatArray) -> FloatArray:
        """Return the confusion shares C, (K, K), of a policy (N, K)."""
        k = len(self.labels)
        weighted = self.weights[:, None] * self.probabilities
        cells = [[(weighted[:, y] * policy[:, a]).sum() for a in range(k)] for y in range(k)]
        return np.array(cells)

    def rule_shares(self, rule: NDArray[np.intp]) -> FloatArray:
        """Return the confusion shares C, (K, K), of a deterministic rule (N,) of label positions."""
        k = len(self.labels)
        weighted = self.weights[:, None] * self.probabilities
        rows = [np.bincount(rule, weighted[:, y], minlength=k) for y in range(k)]
        return np.stack(rows).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A policy on given posteriors: `probabilities` (N, K) and its confusion shares (K, K)."""

    labels: tuple[str, ...]
    probabilities: FloatArray
    shares: FloatArray

    @classmethod
    def of(cls, posteriors: Posteriors, probabilities: FloatArray) -> Policy:
        """Return the policy that draws its answers from `probabilities` (N, K)."""
        return cls(posteriors.labels, probabilities, posteriors.shares(probabilities))

    @classmethod
    def of_rule(cls, posteriors: Posteriors, rule: NDArray[np.intp]) -> Policy:
        """Return the policy that always answers kind x with label number rule[x]."""
        probabilities = np.eye(len(posteriors.labels))[rule]
        return cls(posteriors.labels, probabilities, posteriors.rule_shares(rule))

    def score(self, metric: Metric) -> float:
        """Return a score, as it is approached with ever more papers."""
        return float(SCORES[metric](_with_invalid(self.shares)))

    def class_score(self, metric: ClassMetric) -> FloatArray:
        """Return a score of each label, (K,)."""
        return CLASS_SCORES[metric](_with_invalid(self.shares))

    def greedy(self, posteriors: Posteriors) -> Policy:
        """Return the policy that always gives this one's likeliest answer, the first of equals."""
        return Policy.of_rule(posteriors, self.probabilities.argmax(axis=1))


def _with_invalid(shares: FloatArray) -> FloatArray:
    """Append the column of invalid answers: a policy over labels has none."""
    return np.concatenate([shares, np.zeros((*shares.shape[:-1], 1))], axis=-1)


Functional = Callable[[FloatArray], FloatArray]
"""Confusion shares C (K, K) -> rewards r (K, K): what each answer is paid while the confusion is C."""

STEPS = 4000
PATIENCE = 2000
_TIE = 1e-12
_SETTLED = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """End point of an ascent.

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
    """True if always answering `label` is a fixed point: once there, the reward pays no other answer more.

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


MOST_RULES = 200_000  # Deterministic rules that are tried one by one: three labels on eleven kinds of papers.
_FLOOR = 1e-9


def macro_f1_gradient(shares: FloatArray) -> FloatArray:
    """Return dF/dC_yk (K, K) of the macro-F1 at confusion shares C (K, K).

    ((2 [y = k] - F_k) / (R_k + P_k) - F_y / (R_y + P_y)) / K, R and P row and column sums,
    F_k = 2 C_kk / (R_k + P_k).
    """
    k = len(shares)
    total = np.maximum(shares.sum(axis=1) + shares.sum(axis=0), _FLOOR)
    f1 = 2.0 * np.diagonal(shares) / total
    return ((2.0 * np.eye(k) - f1) / total - (f1 / total)[:, None]) / k


def g_mean_gradient(shares: FloatArray) -> FloatArray:
    """Return the gradient (K, K) of the mean log recall: [y = k] / (K C_kk). It has the G-mean's optimum."""
    return np.diag(1.0 / (len(shares) * np.maximum(np.diagonal(shares), _FLOOR)))


def best_policy(posteriors: Posteriors, metric: Metric) -> Policy:
    """Return the policy, of all that may draw their answers, with the highest score.

    Accuracy: argmax p_k; balanced accuracy: argmax p_k / prior_k. G-mean:
    Frank-Wolfe from the uniform policy, global because log recalls are concave. Macro-F1, which may have
    several stationary points: also from every constant policy and the argmax rule, the best end taken.
    Source: Koyejo et al., NeurIPS 2014; Narasimhan et al., ICML 2015.
    """
    k = len(posteriors.labels)
    if metric is Metric.LABEL_MATCH:
        return Policy.of_rule(posteriors, best_rule(posteriors, np.eye(k)))
    if metric is Metric.BALANCED_ACCURACY:
        prior = np.maximum(posteriors.prior, _FLOOR)
        return Policy.of_rule(posteriors, best_rule(posteriors, np.diag(1.0 / prior)))
    gradients: dict[Metric, Functional] = {Metric.MACRO_F1: macro_f1_gradient, Metric.G_MEAN: g_mean_gradient}
    if metric not in gradients:
        what = "the best policy for this score is not known here"
        allowed = "label_match, balanced_accuracy, macro_f1, g_mean"
        raise ConfigError(what, field="metric", value=metric.value, allowed=allowed)
    beginnings = list(starts(posteriors))[: 1 if metric is Metric.G_MEAN else None]
    tried = [ascend(posteriors, gradients[metric], start, STEPS // 4) for start in beginnings]
    best = max(range(len(tried)), key=lambda i: tried[i].policy.score(metric))
    return ascend(posteriors, gradients[metric], beginnings[best]).policy


def starts(posteriors: Posteriors) -> Iterator[FloatArray]:
    """Yield policies to begin from, (N, K): uniform, the likeliest label, and each constant one."""
    n, k = posteriors.num_kinds, len(posteriors.labels)
    yield np.full((n, k), 1.0 / k)
    yield np.eye(k)[best_rule(posteriors, np.eye(k))]
    for label in range(k):
        yield np.eye(k)[np.full(n, label)]


def best_deterministic(posteriors: Posteriors, metric: Metric) -> Policy | None:
    """Return the best of all K**N deterministic rules, the first of equals; None where they are too many.

    Rules are tried in lexical order of their labels. This is brute force, and an oracle in tests.
    """
    n, k = posteriors.num_kinds, len(posteriors.labels)
    if n * np.log(k) > np.log(MOST_RULES):
        return None
    best: tuple[float, NDArray[np.intp]] | None = None
    for rule in itertools.product(range(k), repeat=n):
        chosen = np.array(rule, np.intp)
        value = Policy.of_rule(posteriors, chosen).score(metric)
        if best is None or value > best[0] + 1e-12:
            best = (value, chosen)
    return None if best is None else Policy.of_rule(posteriors, best[1])
