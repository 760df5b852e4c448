"""Answers of a system, trained with one or several seeds, to the same items; scores with intervals, and differences.

This is what tests and claims are computed from: true labels once, answers once a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tinsmith.stats.draws import generator
from tinsmith.stats.intervals import Interval, checked_level, percentile
from tinsmith.stats.rates import SCORES, Codes, Confusion, FloatArray, Metric, encode, tabulate
from tinsmith.stats.seed_tests import SeedTest
from tinsmith.stats.significance import flip_p, swap_p
from tinsmith.types.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """A system's answers: `golds` (n,) and `predicted` (S, n), as codes; K stands for invalid.

    Build it with `Runs.of`, which checks what is given.
    """

    name: str
    labels: tuple[str, ...]
    items: tuple[str, ...]
    golds: Codes
    predicted: Codes
    num_given: int = 0  # Items of the split with those that not every seed answered; 0: not known.

    @classmethod
    def of(
        cls,
        name: str,
        labels: Sequence[str],
        items: Sequence[str],
        golds: Sequence[str],
        predicted: Sequence[Sequence[str | None]],
    ) -> Runs:
        """Build the answers of n items from their true labels and n answers per seed (None: invalid)."""
        if not items or not predicted:
            raise DataError(f"{name}: there is nothing to score", field="items, seeds")
        if len(set(items)) != len(items):
            raise DataError(f"{name}: an item is answered once per seed", field="items")
        for row in (golds, *predicted):
            if len(row) != len(items):
                what = f"{name}: every item has one true label and one answer per seed"
                raise DataError(what, field="answers", value=len(row), allowed=str(len(items)))
        gold_codes = encode(labels, golds)
        if (gold_codes == len(labels)).any():
            raise DataError(f"{name}: an item has no true label", field="golds")
        answers = np.stack([encode(labels, row) for row in predicted])
        return cls(name, tuple(labels), tuple(items), gold_codes, answers)

    @classmethod
    def constant(cls, other: Runs, label: str) -> Runs:
        """Return the system that answers `label` to every item of `other`."""
        code = encode(other.labels, [label])[0]
        answers = np.full((1, other.num_items), code, np.int64)
        return cls(f"always {label}", other.labels, other.items, other.golds, answers)

    @property
    def num_items(self) -> int:
        """The items, n."""
        return len(self.items)

    @property
    def num_seeds(self) -> int:
        """The trained models, S."""
        return self.predicted.shape[0]

    def answered(self, *, by_every_seed: bool = False) -> set[str]:
        """Return the items: each is answered under every seed."""
        del by_every_seed
        return set(self.items)

    def confusions(self) -> tuple[Confusion, ...]:
        """Return one confusion matrix per seed."""
        return tuple(Confusion(self.labels, tabulate(self.golds, row, len(self.labels))) for row in self.predicted)

    def counts(self) -> Codes:
        """Return the confusion counts of all seeds, (S, K, K + 1)."""
        return np.stack([confusion.counts for confusion in self.confusions()])

    def score(self, metric: Metric) -> float:
        """Return the mean of a score over the seeds."""
        return float(SCORES[metric](self.counts().astype(np.float64)).mean())

    def on(self, items: Sequence[str]) -> Runs:
        """Return the answers restricted to `items`, in their order."""
        place = {item: i for i, item in enumerate(self.items)}
        missing = [item for item in items if item not in place]
        if missing or not items:
            what = f"{self.name} did not answer {len(missing)} of {len(items)} items"
            raise DataError(what, field="items", value=missing[:1])
        order = np.array([place[item] for item in items])
        return Runs(self.name, self.labels, tuple(items), self.golds[order], self.predicted[:, order])

    def aligned(self, other: Runs) -> Runs:
        """Return `other` with its items in this system's order."""
        if self.labels != other.labels:
            what = f"{self.name} and {other.name} do not answer the same question"
            raise DataError(what, field="labels", value=other.labels, allowed=self.labels)
        if set(self.items) != set(other.items):
            apart = len(set(self.items) ^ set(other.items))
            what = f"{self.name} and {other.name} were scored on different items: {apart} differ"
            raise DataError(what, fix="score both on the same split")
        other = other.on(self.items)
        if not np.array_equal(self.golds, other.golds):
            what = f"{self.name} and {other.name} have different true labels for the same items"
            raise DataError(what, fix="score both on the same slice")
        return other


_CHUNK_ITEMS = 1 << 21  # Items drawn at once: bounds the memory at a few tens of megabytes.


def resampled_counts(golds: Codes, predicted: Codes, num_labels: int, *, draws: int, seed: int) -> FloatArray:
    """Return the confusion counts of `draws` resamples, shape (R, S, K, K + 1).

    Every resample has as many items of each true label as there are: `golds` (n,) are their codes, `predicted` (S, n)
    those of the answers, where K = `num_labels` stands for invalid.
    """
    num_seeds, width = predicted.shape[0], num_labels + 1
    counts = np.zeros((draws, num_seeds, num_labels, width))
    for label in range(num_labels):
        answers = predicted[:, golds == label]
        if answers.shape[1] == 0:
            continue
        patterns, member = np.unique(answers, axis=1, return_inverse=True)
        one_hot = (patterns[:, :, None] == np.arange(width)).astype(np.float64)  # (S, P, K + 1)
        flat = one_hot.transpose(1, 0, 2).reshape(patterns.shape[1], -1)
        start = 0
        for times in pattern_counts(member.ravel(), patterns.shape[1], draws, generator(seed, "items", label)):
            stop = start + len(times)
            counts[start:stop, :, label] = (times @ flat).reshape(-1, num_seeds, width)
            start = stop
    return counts


def resampled_seeds(scores: FloatArray, *, seed: int, system: str) -> FloatArray:
    """Return the mean over seeds drawn with replacement, (R,), of `scores` (R, S) in each resample.

    With one seed this changes nothing: the interval is then about that one trained model.
    """
    draws, num_seeds = scores.shape
    if num_seeds == 1:
        return scores[:, 0]
    chosen = generator(seed, "seeds", system).integers(0, num_seeds, size=(draws, num_seeds))
    return np.take_along_axis(scores, chosen, axis=1).mean(axis=1)


def pattern_counts(member: Codes, num_patterns: int, draws: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield resampled counts of patterns in chunks, (chunk, P); `member` (n,) is the pattern of each item."""
    n = member.size
    chunk = max(1, _CHUNK_ITEMS // n)
    dtype = np.uint16 if n <= 1 << 16 else np.uint32
    small = member.astype(np.int32)
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        drawn = small[rng.integers(0, n, size=(size, n), dtype=dtype)]
        drawn += (np.arange(size, dtype=np.int32) * num_patterns)[:, None]
        counted = np.bincount(drawn.ravel(), minlength=size * num_patterns)
        yield counted.reshape(size, num_patterns).astype(np.float64)


def drawn_sums(times: FloatArray, values: FloatArray) -> FloatArray:
    """Return `times` (R, P) . `values` (P, S), added up in the order of P: a library's depends on the processor."""
    total = np.zeros((len(times), values.shape[1]))
    for column, row in zip(times.T, values, strict=True):
        total += column[:, None] * row
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """Settings of an interval's draws."""

    draws: int = 10_000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        checked_level(self.level)
        if not hasattr(self.draws, "__index__") or self.draws < 100:
            what = "an interval takes a number of resamples"
            raise ConfigError(what, field="draws", value=self.draws, allowed="whole numbers from 100; 10000 is usual")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Score with its interval; the interval is None if the score is undefined in every resample."""

    value: float
    interval: Interval | None

    def __str__(self) -> str:
        return f"{self.value:.3f} {self.interval}" if self.interval else f"{self.value:.3f}"


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Difference of two systems' scores on the same items, with interval, p-value and resamples."""

    value: float
    draws: FloatArray
    interval: Interval | None
    p_value: float
    """Two-sided: twice the smaller share of draws on either side of zero, one draw added to each, or a larger p."""
    over_seeds: SeedTest | None = None  # Guard of a claim about a method.

    @classmethod
    def of(cls, value: float, draws: FloatArray, level: float, *, least_p: float = 0.0) -> Difference:
        """Compute interval and p-value from the resamples (R,); `least_p`, another test's p, is a lower bound.

        NaN draws are left out. Source: Davison and Hinkley, "Bootstrap Methods" (1997), eq. 4.11 for the added draw.
        """
        below, above = int((draws <= 0).sum()), int((draws >= 0).sum())
        p_value = min(1.0, 2.0 * (min(below, above) + 1) / (int((~np.isnan(draws)).sum()) + 1))
        return cls(value, draws, percentile(draws, level), max(p_value, least_p))

    def guarded(self, test: SeedTest | None) -> Difference:
        """Return the difference with p no smaller, and intervals no narrower, than those of a test over seeds."""
        if test is None:
            return self
        found = self.interval
        return replace(
            self,
            p_value=max(self.p_value, test.p_value),
            interval=None if found is None else found.hull(test.at(found.level)),
            over_seeds=test,
        )

    def at(self, level: float) -> Interval | None:
        """Return the percentile interval at a level, widened to that of the test over seeds if there is one."""
        found = percentile(self.draws, level)
        return found if found is None or self.over_seeds is None else found.hull(self.over_seeds.at(level))


def estimate(runs: Runs, metric: Metric, bootstrap: Bootstrap) -> Estimate:
    """Return a score's mean over seeds with its percentile interval over seeds and items."""
    counts = _counts(runs, bootstrap)
    draws = resampled_seeds(SCORES[metric](counts), seed=bootstrap.seed, system="first")
    return Estimate(runs.score(metric), percentile(draws, bootstrap.level))


def difference(first: Runs, second: Runs, metric: Metric, bootstrap: Bootstrap) -> Difference:
    """Return `first` minus `second`: the difference of their means over seeds, on the same items.

    Seeds are drawn apart for the two, then one resample of the items within true labels serves both.
    The p-value needs no assumption of equal variances; it cannot be below 2 / (draws + 1), nor below that of an exact
    test of the items: resamples of few items, or of few on which the two differ, are too much alike. Of right answers
    this flips the sign of each item's net over the seeds (of one seed: McNemar's test); of other scores it swaps the
    two systems' answers.
    """
    second = first.aligned(second)
    together = Runs(
        first.name, first.labels, first.items, first.golds, np.concatenate([first.predicted, second.predicted])
    )
    scores = SCORES[metric](_counts(together, bootstrap))
    draws = resampled_seeds(scores[:, : first.num_seeds], seed=bootstrap.seed, system="first") - resampled_seeds(
        scores[:, first.num_seeds :], seed=bootstrap.seed, system="second"
    )
    value = first.score(metric) - second.score(metric)
    return Difference.of(value, draws, bootstrap.level, least_p=_exact_p(first, second, metric, bootstrap))


def _exact_p(first: Runs, second: Runs, metric: Metric, bootstrap: Bootstrap) -> float:
    if metric is Metric.LABEL_MATCH:
        right = [(one.predicted == one.golds).sum(axis=0).tolist() for one in (first, second)]
        sizes = first.num_seeds, second.num_seeds
        nets = [Fraction(mine, sizes[0]) - Fraction(theirs, sizes[1]) for mine, theirs in zip(*right, strict=True)]
        return flip_p(nets, seed=bootstrap.seed)[0]
    return swap_p(
        first.golds,
        first.predicted,
        second.predicted,
        len(first.labels),
        metric,
        draws=bootstrap.draws,
        seed=bootstrap.seed,
    )


def _counts(runs: Runs, bootstrap: Bootstrap) -> FloatArray:
    return resampled_counts(runs.golds, runs.predicted, len(runs.labels), draws=bootstrap.draws, seed=bootstrap.seed)
