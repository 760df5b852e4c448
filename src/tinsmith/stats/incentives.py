"""Optimal policy of a reward, computed before training: posteriors, policies on them, and gradient ascent.

A policy answers paper x with label k with probability pi_k(x). All that a reward sees of it are its confusion shares
C_yk = sum_x w_x p_y(x) pi_k(x); sums run in a fixed order, so that a tie is a tie on every machine. A reward that pays
every answer by itself is linear in the policy: its optimum answers each paper with argmax_k sum_y p_y(x) r[y, k], and
whether a label is ever said depends on the posteriors alone. A reward that depends on the confusion of all answers is
followed to where it rests.

Frank-Wolfe over the policies on given posteriors: answer every paper with the label that the reward, as it is now, pays
best; mix that rule into the policy with weight 2 / (t + 3); repeat. The policy stays a distribution over labels for
every paper. For a reward that is the gradient of a score this climbs the score; for others it is fictitious play.
Sources: Frank and Wolfe (1956); Narasimhan et al., ICML 2015, for scores of the confusion matrix.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

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
    weighted: FloatArray = field(init=False, repr=False)  # (K, N): the share of papers of each label and kind.

    def __post_init__(self) -> None:
        weighted = np.ascontiguousarray((self.weights[:, None] * self.probabilities).T)
        object.__setattr__(self, "weighted", weighted)  # once, as thousands of steps ask for it

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
        rho = np.zeros(self.probabilities.shape)
        for y in range(len(self.labels)):
            rho += self.probabilities[:, y, None] * matrix[y]
        return rho

    def shares(self, policy: FloatArray) -> FloatArray:
        """Return the confusion shares C, (K, K), of a policy (N, K)."""
        k = len(self.labels)
        cells = [[(self.weighted[y] * policy[:, a]).sum() for a in range(k)] for y in range(k)]
        return np.array(cells)

    def rule_shares(self, rule: NDArray[np.intp]) -> FloatArray:
        """Return the confusion shares C, (K, K), of a deterministic rule (N,) of label positions."""
        k = len(self.labels)
        return np.array([np.bincount(rule, of_label, minlength=k) for of_label in self.weighted], np.float64)


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
        """Return a score in the limit of infinitely many papers."""
        return float(SCORES[metric](_with_invalid(self.shares)))

    def class_score(self, metric: ClassMetric) -> FloatArray:
        """Return a score of each label, (K,)."""
        return CLASS_SCORES[metric](_with_invalid(self.shares))

    def greedy(self, posteriors: Posteriors) -> Policy:
        """Return the greedy policy: the most probable answer, the first of equals."""
        return Policy.of_rule(posteriors, self.probabilities.argmax(axis=1))


def _with_invalid(shares: FloatArray) -> FloatArray:
    """Append the column of invalid answers: a policy over labels has none."""
    return np.concatenate([shares, np.zeros((*shares.shape[:-1], 1))], axis=-1)


Functional = Callable[[FloatArray], FloatArray]
"""Function from confusion shares C (K, K) to the rewards r (K, K) of each answer by true label."""

STEPS = 4000
PATIENCE = 2000
_TIE = 1e-12
_SETTLED = 1e-7


def _paid_best(posteriors: Posteriors, matrix: FloatArray) -> NDArray[np.bool_]:
    rho = posteriors.expected(matrix)
    return rho >= rho.max(axis=1, keepdims=True) - _TIE * max(float(np.abs(matrix).max()), 1.0)


def best_rule(posteriors: Posteriors, matrix: FloatArray) -> NDArray[np.intp]:
    """Return argmax_k rho_k(x) for every kind of paper, (N,); ties go to the first label."""
    return _paid_best(posteriors, matrix).argmax(axis=1)


_Rest = tuple[Policy, FloatArray, float]


def ascend(posteriors: Posteriors, functional: Functional, start: FloatArray, steps: int = STEPS) -> _Rest:
    """Ascend the reward's gradient from the policy `start` (N, K) for `steps` steps, or until convergence.

    Its distance from the fixed point falls like 1 / steps: with 4000, shares are right to about 0.001.

    Returns:
        The policy, the rewards that it now gets, and what the best rule would earn above it at these, per answer,
        divided by their spread: 0 where nothing is left to gain.
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
    return Policy.of(posteriors, policy), matrix, _gap(matrix, shares, target)


def rests_at(posteriors: Posteriors, functional: Functional, label: int) -> bool:
    """True if always answering `label` is a fixed point: under that policy no other answer is paid more.

    A reward with duals is asked again until it pays the same twice, at most PATIENCE times.
    """
    shares = posteriors.rule_shares(np.full(posteriors.num_kinds, label))
    matrix = functional(shares)
    for _ in range(PATIENCE):
        before, matrix = matrix, functional(shares)
        if np.array_equal(before, matrix):
            break
    return bool(_paid_best(posteriors, matrix)[:, label].all())


def _gap(matrix: FloatArray, shares: FloatArray, target: FloatArray) -> float:
    spread = float(matrix.max() - matrix.min())
    return float((matrix * (target - shares)).sum()) / spread if spread > 0.0 else 0.0


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
    tried = [ascend(posteriors, gradients[metric], start, STEPS // 4)[0].score(metric) for start in beginnings]
    return ascend(posteriors, gradients[metric], beginnings[tried.index(max(tried))])[0]


def starts(posteriors: Posteriors) -> Iterator[FloatArray]:
    """Yield initial policies (N, K): uniform, the most probable label, and each constant policy."""
    n, k = posteriors.num_kinds, len(posteriors.labels)
    yield np.full((n, k), 1.0 / k)
    yield np.eye(k)[best_rule(posteriors, np.eye(k))]
    for label in range(k):
        yield np.eye(k)[np.full(n, label)]


def best_deterministic(posteriors: Posteriors, metric: Metric) -> Policy | None:
    """Return the best of all K**N deterministic rules, the first of equals; None if there are too many.

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


DEAD_SHARE = 0.01  # A label with less of the answers than this is lost.
RULING_SHARE = 0.75  # A label with more of the answers than this rules; the collapse monitor's limit.
_ANOTHER = 0.02
_AT_REST = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The optimum of a reward on given posteriors."""

    policy: Policy
    greedy: Policy  # Always the likeliest answer of `policy`: what greedy decoding shows of it.
    matrix: FloatArray  # Rewards r (K, K) at the optimum.
    reward: float  # Expected reward of a valid answer at the optimum.
    reacts: bool  # Whether the reward depends on the confusion.
    gap: float  # Share of the rewards' spread that is left to gain; above 0.001 the optimum is not settled.
    tied: float  # Share of papers with two equally paid answers.
    resting_collapses: tuple[str, ...]
    """Labels whose constant policy is a fixed point of the reward."""
    others: tuple[Policy, ...] = ()  # Other policies at which the reward rests, from other beginnings.

    @property
    def dead(self) -> tuple[str, ...]:
        """Labels that the optimal policy never answers."""
        return _labels_where(self.policy, lambda share: share < DEAD_SHARE)

    @property
    def ruling(self) -> tuple[str, ...]:
        """Labels with most of the optimal policy's answers: at most one."""
        return _labels_where(self.policy, lambda share: share > RULING_SHARE)

    @property
    def settled(self) -> bool:
        """True if the search converged."""
        return self.gap <= _AT_REST

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about training with this reward, one sentence each."""
        notes: list[str] = []
        shares = dict(zip(self.policy.labels, _answer_shares(self.policy).tolist(), strict=True))
        for label in self.ruling:
            lost = f"; {' and '.join(self.dead)} die in it" if self.dead else ""
            notes.append(
                f"the optimum answers {label} to {shares[label]:.0%} of the papers{lost}: that "
                "collapse is what this reward pays for"
            )
        for label in () if self.ruling else self.dead:
            notes.append(
                f"{label} dies: the optimum gives it {shares[label]:.1%} of the answers, so losing "
                "it is the reward's aim and no failure of training"
            )
        notes += [
            f"greedy decoding never says {label}, though the optimum does: evaluate sampled answers"
            for label in _labels_where(self.greedy, lambda share: share < DEAD_SHARE)
            if label not in self.dead
        ]
        if self.reacts and self.resting_collapses:
            notes.append(f"a collapse onto {' or '.join(self.resting_collapses)} would not be undone by this reward")
        if not self.settled:
            notes.append(f"the search did not settle (gap {self.gap:.4f}): read the figures as rough")
        if self.tied > DEAD_SHARE:
            notes.append(f"for {self.tied:.0%} of the papers two answers pay the same; the first label was taken")
        return tuple(notes)


def table_optimum(posteriors: Posteriors, matrix: FloatArray) -> Optimum:
    """Return the exact optimum of a fixed table of rewards r (K, K), with true labels in rows."""
    r = checked_matrix(posteriors, matrix)
    rest = Policy.of_rule(posteriors, best_rule(posteriors, r)), r, 0.0
    tied = float(posteriors.weights[_paid_best(posteriors, r).sum(axis=1) > 1].sum())
    return _optimum(posteriors, lambda: lambda _: r, [rest], reacts=False, tied=tied)


def reacting_optimum(posteriors: Posteriors, make: Callable[[], Functional], steps: int = STEPS) -> Optimum:
    """Return the policy to which a confusion-dependent reward converges from uniformly random answers.

    `make` gives the reward at its start; one that remembers more than the confusion (duals) may change
    with every call. It is also followed from the likeliest label and from every collapse; ends whose
    shares differ are told as `others`.
    """

    def checked() -> Functional:
        functional = make()
        return lambda shares: checked_matrix(posteriors, functional(shares))

    first, *beginnings = starts(posteriors)
    converged = [ascend(posteriors, checked(), first, steps)]
    for start in beginnings:
        rest = ascend(posteriors, checked(), start, max(steps // 4, 1))
        if min(np.abs(_answer_shares(rest[0]) - _answer_shares(policy)).max() for policy, _, _ in converged) > _ANOTHER:
            converged.append(rest)
    return _optimum(posteriors, checked, converged, reacts=True, tied=0.0)


def checked_matrix(posteriors: Posteriors, matrix: FloatArray) -> FloatArray:
    """Return the rewards as float64."""
    r, k = np.asarray(matrix, np.float64), len(posteriors.labels)
    if r.shape != (k, k) or not np.isfinite(r).all():
        what = "a reward is one finite number for every true label (rows) and answer (columns)"
        allowed = f"({k}, {k}) for the labels {', '.join(posteriors.labels)}"
        raise ConfigError(what, field="matrix", value=r.tolist() if r.size <= 16 else r.shape, allowed=allowed)
    return r


def _optimum(
    posteriors: Posteriors, make: Callable[[], Functional], converged: Sequence[_Rest], *, reacts: bool, tied: float
) -> Optimum:
    (policy, matrix, gap), *others = converged
    collapses = [label for i, label in enumerate(posteriors.labels) if rests_at(posteriors, make(), i)]
    return Optimum(
        policy=policy,
        greedy=policy.greedy(posteriors),
        matrix=matrix,
        reward=float((matrix * policy.shares).sum()),
        reacts=reacts,
        gap=gap,
        tied=tied,
        resting_collapses=tuple(collapses),
        others=tuple(other for other, _, _ in others),
    )


def _answer_shares(policy: Policy) -> FloatArray:
    return policy.class_score(ClassMetric.PREDICTED_SHARE)


def _labels_where(policy: Policy, holds: Callable[[float], bool]) -> tuple[str, ...]:
    shares = _answer_shares(policy).tolist()
    return tuple(label for label, share in zip(policy.labels, shares, strict=True) if holds(share))


@dataclass(frozen=True, slots=True, eq=False)
class Sensitivity:
    """Weight on `label` above which each kind of paper is answered with it, in ascending order.

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
        """Return the smallest weight at or just above which the label has `share` of the answers; inf if none."""
        reached = np.cumsum(self.weights) >= share - 1e-12
        return float(self.turns[reached.argmax()]) if reached.any() else math.inf

    @property
    def window(self) -> tuple[float, float]:
        """Weights at which the label's share passes one tenth and nine tenths."""
        return self.weight_for(0.1), self.weight_for(0.9)

    @property
    def width(self) -> float:
        """Ratio of the window's upper end to its lower end; close to 1 is a knife-edge."""
        low, high = self.window
        return high / low if low > 0.0 and math.isfinite(high) else math.inf


def sensitivity(posteriors: Posteriors, matrix: FloatArray, label: str) -> Sensitivity | None:
    """Return the weights on `label` at which its share of the optimal answers changes.

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
