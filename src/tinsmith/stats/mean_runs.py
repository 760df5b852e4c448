"""Values of a system on items, over one or several seeds: means, intervals, paired differences.

Items that hang together (both orders of a pair) are drawn together, as a cluster; seeds are crossed with them as in
tinsmith.stats.estimates. Source: Owen, Annals of Applied Statistics 1 (2007); Davison and Hinkley, "Bootstrap
Methods" (1997), sec. 3.8 for clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np

from tinsmith.stats.draws import generator
from tinsmith.stats.estimates import (
    Bootstrap,
    Difference,
    Estimate,
    Runs,
    difference,
    drawn_sums,
    pattern_counts,
    resampled_seeds,
)
from tinsmith.stats.intervals import Interval, percentile
from tinsmith.stats.rates import SCORES, FloatArray, Metric
from tinsmith.stats.seed_tests import ENOUGH_SEEDS, seed_test
from tinsmith.stats.significance import flip_p, paired_interval
from tinsmith.types.errors import DataError

ByItem = Mapping[str, Fraction]
_ROUNDING = 1e-9  # Draws no farther apart are equal.


@dataclass(frozen=True, slots=True, eq=False)
class MeanRuns:
    """One system's values by seed and item; build it with `of`."""

    name: str
    items: tuple[str, ...]  # Sorted; each has a value under every seed, unless it was built with `some`.
    clusters: Mapping[str, str]  # Of every item; items of one cluster are drawn together.
    by_seed: tuple[ByItem, ...]
    items_are_seeds: bool = False
    """True if each item is the mean of a seed, which draws items of its own: the one row has a value a seed."""

    @classmethod
    def of(cls, name: str, by_seed: Sequence[ByItem], clusters: Mapping[str, str] | None = None) -> MeanRuns:
        """Build the values from each seed's by item; an item that lacks a seed's value is left out."""
        shared = set(by_seed[0]).intersection(*by_seed[1:]) if by_seed else set[str]()
        return cls.some(name, by_seed, tuple(shared), clusters)

    @classmethod
    def some(
        cls, name: str, by_seed: Sequence[ByItem], items: Sequence[str], clusters: Mapping[str, str] | None = None
    ) -> MeanRuns:
        """Build the values of `items`, some of which may be missing under some seeds.

        The mean of a seed is over those that have one under it; all are drawn.
        """
        if not by_seed or not all(one.keys() & set(items) for one in by_seed):
            raise DataError(f"{name}: there is nothing to average", field="items, seeds")
        own = clusters or {}
        return cls(name, tuple(sorted(items)), {item: own.get(item, item) for item in items}, tuple(by_seed))

    @property
    def num_items(self) -> int:
        """The items, n."""
        return len(self.items)

    @property
    def num_seeds(self) -> int:
        """The trained models, S."""
        return self.num_items if self.items_are_seeds else len(self.by_seed)

    def on(self, items: Sequence[str]) -> MeanRuns:
        """Return the values restricted to `items`."""
        missing = [item for item in items if item not in self.clusters]
        if missing or not items:
            what = f"{self.name} has no value of {len(missing)} of {len(items)} items"
            raise DataError(what, field="items", value=missing[:1])
        if any(one.keys().isdisjoint(items) for one in self.by_seed):
            what = f"{self.name} has no value of {len(items)} items under one of its seeds"
            raise DataError(what, field="items", value=items[:1])
        ordered = tuple(sorted(items))
        return replace(self, items=ordered, clusters={item: self.clusters[item] for item in ordered})

    def answered(self, *, by_every_seed: bool = False) -> set[str]:
        """Return the items with a value under any seed, or under every one."""
        chosen = (set[str].intersection if by_every_seed else set[str].union)(*(set(one) for one in self.by_seed))
        return chosen & self.clusters.keys()

    def pooled(self) -> dict[str, Fraction]:
        """Return each item's mean over the seeds that have its value."""
        values_by_item = {item: [one[item] for one in self.by_seed if item in one] for item in self.items}
        return {item: exact_mean(values) for item, values in values_by_item.items() if values}

    def means(self) -> tuple[float, ...]:
        """Return the mean over the items for each seed."""
        return tuple(map(float, self._means()))

    def mean(self) -> float:
        """Return the mean over items and seeds."""
        return float(sum(means := self._means(), Fraction()) / len(means))

    def _means(self) -> list[Fraction]:
        by_seed = [[one[item] for item in self.items if item in one] for one in self.by_seed]
        return by_seed[0] if self.items_are_seeds else [exact_mean(values) for values in by_seed]

    def estimate(self, bootstrap: Bootstrap) -> Estimate:
        """Return the mean with its percentile interval over seeds and clusters; none where all draws are equal."""
        ends = percentile(self.draws(bootstrap, "first"), bootstrap.level)
        return Estimate(self.mean(), None if _is_point(ends) else ends)

    def draws(self, bootstrap: Bootstrap, system: str) -> FloatArray:
        """Return the mean of each resample, (R,); all systems on these items share the drawn clusters."""
        names = sorted(set(self.clusters.values()))
        if len(names) < 2:
            return np.full(bootstrap.draws, math.nan)
        place = {name: at for at, name in enumerate(names)}
        sums, sizes = np.zeros((2, len(names), len(self.by_seed)))
        for item in self.items:
            at = place[self.clusters[item]]
            for seed, one in enumerate(self.by_seed):
                if item in one:
                    sums[at, seed] += float(one[item])
                    sizes[at, seed] += 1.0
        rng = generator(bootstrap.seed, "clusters")
        drawn = pattern_counts(np.arange(len(names)), len(names), bootstrap.draws, rng)
        means = np.concatenate([_over(drawn_sums(times, sums), times @ sizes) for times in drawn])
        return resampled_seeds(means, seed=bootstrap.seed, system=system)


def exact_mean(values: Sequence[Fraction]) -> Fraction:
    """Return the exact mean; values with a common denominator are added as integers.

    >>> exact_mean([Fraction(1, 2), Fraction(1, 2), Fraction(1, 3)])
    Fraction(4, 9)
    """
    numerators: dict[int, int] = {}
    for one in values:
        numerators[one.denominator] = numerators.get(one.denominator, 0) + one.numerator
    return sum((Fraction(total, below) for below, total in numerators.items()), Fraction()) / len(values)


System = TypeVar("System", Runs, MeanRuns)


def common_items(systems: Sequence[System], *, by_every_seed: bool = False) -> tuple[list[str], int]:
    """Return the items that all systems have a value of, in the order of the first, and the number left out.

    With `by_every_seed` an item needs a value under each of their seeds. Where a seed would be left without any value
    nothing can be compared: there are no common items.
    """
    every = set[str]().union(*(one.answered() for one in systems))
    shared = every.intersection(*(one.answered(by_every_seed=by_every_seed) for one in systems))
    means = [one for one in systems if isinstance(one, MeanRuns)]
    if any(values.keys().isdisjoint(shared) for one in means for values in one.by_seed):
        return [], len(every)
    items = [item for item in systems[0].items if item in shared]
    given = max(len(every), *(one.num_given for one in systems if isinstance(one, Runs)), 0)
    return items, given - len(items)


def shared_items(systems: Sequence[System]) -> tuple[list[System], int]:
    """Restrict systems to their common items, in the order of the first; return them and the number left out."""
    items, left_out = common_items(systems)
    if not items:
        raise DataError("no item has a value of all systems", field="systems", value=[one.name for one in systems])
    return [one.on(items) for one in systems], left_out


def mean_difference(first: MeanRuns, second: MeanRuns, bootstrap: Bootstrap, *, paired: bool = False) -> Difference:
    """Return `first` minus `second` on the items that both have a value of: the mean over seeds and items of each.

    Its p is the larger of two: that of the resamples, in which seeds vary too, and that of flips of the signs of the
    clusters' differences, which holds for few clusters, whose resamples are too much alike. With `paired` row s of both
    is one run, such as before and after its training, or two runs of one seed: they are drawn together; else apart, and
    the two need not have as many seeds. With five seeds and more Student's t over them guards p and interval.
    Where seeds draw the items they are pairs.
    """
    (first, second), _ = shared_items([first, second])
    paired = paired or first.items_are_seeds
    system = "first" if paired else "second"
    draws = first.draws(bootstrap, "first") - second.draws(bootstrap, system)
    mine, theirs = first.pooled(), second.pooled()
    nets: dict[str, Fraction] = {}
    for item in first.items:
        cluster = first.clusters[item]
        nets[cluster] = nets.get(cluster, Fraction()) + mine[item] - theirs[item]
    flipped_p, _ = flip_p([nets[name] for name in sorted(nets)], seed=bootstrap.seed)
    gap = Difference.of(first.mean() - second.mean(), draws, bootstrap.level, least_p=flipped_p)
    return _guarded(gap, first.means(), second.means(), paired=paired)


def varied_difference(first: MeanRuns, second: MeanRuns, bootstrap: Bootstrap, *, paired: bool = False) -> Difference:
    """Return their difference as `mean_difference` does, but with no interval of width 0, where all draws are equal.

    Of values from 0 to 1 that differ nowhere, or by 1 everywhere, it is Tango's, each cluster under each seed a pair.
    """
    gap = mean_difference(first, second, bootstrap, paired=paired)
    if not _is_point(gap.interval):
        return gap
    are_shares = all(0 <= value <= 1 for one in (first, second) for row in one.by_seed for value in row.values())
    pairs = len(set(first.clusters.values())) * min(len(first.by_seed), len(second.by_seed))
    ends = paired_interval(pairs * (gap.value > 0.0), pairs * (gap.value < 0.0), pairs, bootstrap.level)
    return replace(gap, interval=ends if are_shares and gap.value in (-1.0, 0.0, 1.0) else None)


def _is_point(ends: Interval | None) -> bool:
    return ends is not None and ends.high - ends.low < _ROUNDING


def _guarded(gap: Difference, first: Sequence[float], second: Sequence[float], *, paired: bool = False) -> Difference:
    """Return a difference with the test over seeds, where these are enough; a side with one score is fixed."""
    sizes = [len(each) for each in (first, second) if len(each) > 1]
    return gap.guarded(seed_test(first, second, paired=paired)) if sizes and min(sizes) >= ENOUGH_SEEDS else gap


def gap_of(
    first: Runs | MeanRuns, second: Runs | MeanRuns, metric: str, bootstrap: Bootstrap, *, paired: bool = False
) -> Difference:
    """Return `first` minus `second`: of labels in a metric, of values the difference of their means."""
    if isinstance(first, MeanRuns):
        assert isinstance(second, MeanRuns), "both are of one kind"
        return mean_difference(first, second, bootstrap, paired=paired)
    assert isinstance(second, Runs), "both are of one kind"
    gap = difference(first, second, Metric(metric), bootstrap)
    return _guarded(gap, *(scores_by_seed(one, metric) for one in (first, second)), paired=paired)


def scores_by_seed(system: Runs | MeanRuns, metric: str) -> tuple[float, ...]:
    """Return the score of each seed: of labels in a metric, of values their mean."""
    if isinstance(system, MeanRuns):
        return system.means()
    return tuple(SCORES[Metric(metric)](system.counts().astype(np.float64)).tolist())


def mean_ratio(first: MeanRuns, second: MeanRuns, bootstrap: Bootstrap) -> Estimate | None:
    """Return the ratio of two systems' means on their common items; None if the divisor is 0.

    Where a resample has a second mean of 0 the ratio has no upper end, and no interval is given.
    """
    (first, second), _ = shared_items([first, second])
    top, bottom = first.mean(), second.mean()
    if not bottom:
        return None
    tops, bottoms = first.draws(bootstrap, "first"), second.draws(bootstrap, "second")
    interval = None if (bottoms == 0.0).any() else percentile(_over(tops, bottoms), bootstrap.level)
    return Estimate(top / bottom, interval)


def _over(top: FloatArray, bottom: FloatArray) -> FloatArray:
    """Return the quotients; NaN where the divisor is 0."""
    return np.divide(top, bottom, out=np.full(top.shape, math.nan), where=bottom != 0.0)
