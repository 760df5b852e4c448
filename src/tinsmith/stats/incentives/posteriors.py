"""What can be known about each paper's label: the probabilities every policy must live with.

A policy answers paper x with label k with probability pi_k(x). All that a reward sees of it are its
confusion shares C_yk = sum_x w_x p_y(x) pi_k(x); sums run in a fixed order, so that a tie is a tie on
every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.rates import CLASS_SCORES, SCORES, ClassMetric, FloatArray, Metric
from tinsmith.types.errors import DataError

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
