"""Shares of what happened to the same items under several seeds: means, ratios and differences, over seeds and items.

Seeds and items are crossed as in tinsmith.analysis.resampling: one resample of the items within their strata serves
every seed. A share counts only some of the items, other ones under another seed; what is not counted is neither a
success nor a failure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tinsmith.analysis.confusion import Codes
from tinsmith.analysis.estimates import Bootstrap, Estimate
from tinsmith.analysis.intervals import Interval, percentile
from tinsmith.analysis.rates import FloatArray
from tinsmith.analysis.resampling import resampled_counts, resampled_seeds
from tinsmith.types.errors import DataError


class Fate(IntEnum):
    """What became of an item: whether it happened, in the group that counts or in the one it is held against."""

    HAPPENED = 0
    DID_NOT = 1
    HAPPENED_THERE = 2
    DID_NOT_THERE = 3
    UNCOUNTED = 4


@dataclass(frozen=True, slots=True, eq=False)
class SeededShares:
    """One system's fates: `strata` (n,) of the items, `fates` (S, n), a row a seed. Build it with `of`."""

    strata: Codes
    fates: Codes
    held_against: bool
    """Whether the share there is taken from the share that counts."""

    @classmethod
    def of(
        cls,
        strata: Sequence[int],
        fates: Sequence[Sequence[Fate]],
        *,
        held_against: bool = False,
    ) -> SeededShares:
        """Build it from the items' strata, counted from 0, and per seed the fate of every item.

        Raises:
            DataError: no item, no seed, or a row of another length.
        """
        if not strata or not fates:
            raise DataError("there is nothing to count", field="items, seeds")
        for row in fates:
            if len(row) != len(strata):
                raise DataError(
                    "every item has one fate per seed",
                    field="fates",
                    value=len(row),
                    allowed=str(len(strata)),
                )
        return cls(np.array(strata, np.int64), np.array(fates, np.int64), held_against)

    def by_seed(self) -> FloatArray:
        """Return the share under each seed, (S,), less that there if it is held against one; NaN: nothing to count."""
        counts = np.stack(
            [(self.fates == fate).sum(axis=1) for fate in tuple(Fate)[:-1]], axis=-1
        ).astype(np.float64)
        return self._shares(counts)

    def mean(self) -> float:
        """Return the mean over the seeds; NaN where one has nothing to count."""
        return float(self.by_seed().mean())

    def estimate(self, bootstrap: Bootstrap) -> Estimate:
        """Return the mean over the seeds, with its percentile interval over seeds and items."""
        draws = self.draws(bootstrap, "first")
        return Estimate(self.mean(), percentile(draws, bootstrap.level))

    def draws(self, bootstrap: Bootstrap, system: str) -> FloatArray:
        """Return the mean in each resample, (R,); one resample of the items is the same for every system on them."""
        num_labels = max(int(Fate.UNCOUNTED), int(self.strata.max()) + 1)
        counts = resampled_counts(
            self.strata, self.fates, num_labels, draws=bootstrap.draws, seed=bootstrap.seed
        ).sum(axis=2)
        return resampled_seeds(self._shares(counts), seed=bootstrap.seed, system=system)

    def _shares(self, counts: FloatArray) -> FloatArray:
        """Return the shares of counts whose last axis goes by fate."""
        found = _share(counts[..., Fate.HAPPENED], counts[..., Fate.DID_NOT])
        if not self.held_against:
            return found
        return found - _share(counts[..., Fate.HAPPENED_THERE], counts[..., Fate.DID_NOT_THERE])


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """One mean less another on the same items, and the standard deviation of that over the resamples."""

    value: float
    standard_error: float
    interval: Interval | None

    @property
    def not_below(self) -> bool:
        """Whether it is not below 0 by more than one standard error."""
        return self.value >= -self.standard_error


def ratio_of_means(
    first: SeededShares, second: SeededShares, bootstrap: Bootstrap, *, paired: bool
) -> Estimate | None:
    """Return the first mean over the second, with its percentile interval; None where the second is 0, or one unknown.

    Where a resample has a second mean of 0 the ratio has no upper end, and no interval is given.

    Args:
        first: the share on top.
        second: the share below, on the same items.
        bootstrap: how the resamples are drawn.
        paired: whether row s of both was trained under the same seed; seeds are then drawn together, else apart.

    Raises:
        DataError: they are not about the same items.
    """
    top, over = first.mean(), second.mean()
    tops, bottoms = _both(first, second, bootstrap, paired=paired)
    if not over or math.isnan(top) or math.isnan(over):
        return None
    unbounded = bool((bottoms == 0.0).any())
    draws = _over(tops, bottoms)
    return Estimate(top / over, None if unbounded else percentile(draws, bootstrap.level))


def difference_of_means(
    first: SeededShares, second: SeededShares, bootstrap: Bootstrap, *, paired: bool
) -> MeanDifference:
    """Return the first mean less the second; see `ratio_of_means`.

    Of S seeds drawn with replacement the mean varies by (S - 1) / S of what new seeds would: with few the standard
    error is rather too small, and a difference is sooner called one.

    Raises:
        DataError: they are not about the same items, or a seed has nothing to count.
    """
    if math.isnan(first.mean()) or math.isnan(second.mean()):
        raise DataError("a mean over seeds takes something to count under each", field="fates")
    tops, others = _both(first, second, bootstrap, paired=paired)
    draws = tops - others
    return MeanDifference(
        first.mean() - second.mean(),
        float(np.std(draws, ddof=1)),
        percentile(draws, bootstrap.level),
    )


def _both(
    first: SeededShares, second: SeededShares, bootstrap: Bootstrap, *, paired: bool
) -> tuple[FloatArray, FloatArray]:
    if not np.array_equal(first.strata, second.strata):
        raise DataError("two means are compared on the same items", field="items")
    if paired and len(first.fates) != len(second.fates):
        raise DataError("paired seeds are as many on both sides", field="seeds")
    names = ("pairs", "pairs") if paired else ("first", "second")
    return first.draws(bootstrap, names[0]), second.draws(bootstrap, names[1])


def _share(happened: FloatArray, did_not: FloatArray) -> FloatArray:
    return _over(happened, happened + did_not)


def _over(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.full(top.shape, math.nan), where=bottom != 0.0)
