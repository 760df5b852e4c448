"""Shares of what happened to the same items under several seeds: means, ratios and differences, over seeds and items.

Seeds and items are crossed as in tinsmith.stats.resampling: one resample of the items within their strata serves
every seed. A share counts only some of the items, other ones under another seed; what is not counted is neither a
success nor a failure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tinsmith.stats.confusion import Codes, tabulate
from tinsmith.stats.estimates import Bootstrap, Estimate
from tinsmith.stats.intervals import Interval, percentile
from tinsmith.stats.rates import FloatArray
from tinsmith.stats.resampling import resampled_counts, resampled_seeds
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
    rooms: Codes
    """Of each stratum, (K,): which of them are alike, so that two shares are compared within them."""

    @classmethod
    def of(
        cls,
        strata: Sequence[int],
        fates: Sequence[Sequence[Fate]],
        *,
        held_against: bool = False,
        rooms: Sequence[int] | None = None,
    ) -> SeededShares:
        """Build it from the items' strata, counted from 0, and per seed the fate of every item.

        Args:
            strata: resamples have as many items of each as there are.
            fates: a row a seed.
            held_against: whether the share there is taken from the share that counts.
            rooms: of every item, counted from 0: shares are then compared within a room alone, and the differences
                weighted as Mantel and Haenszel do (tinsmith.stats.differences). Default: one room.
        """
        if not strata or not fates:
            raise DataError("there is nothing to count", field="items, seeds")
        alike = rooms if rooms is not None else [0] * len(strata)
        for row in (alike, *fates):
            if len(row) != len(strata):
                raise DataError(
                    "every item has one fate per seed", field="fates", value=len(row), allowed=str(len(strata))
                )
        pairs = sorted(set(zip(alike, strata, strict=True)))
        places = {pair: place for place, pair in enumerate(pairs)}
        codes = [places[pair] for pair in zip(alike, strata, strict=True)]
        return cls(
            np.array(codes, np.int64),
            np.array(fates, np.int64),
            held_against,
            np.array([room for room, _ in pairs], np.int64),
        )

    def by_seed(self) -> FloatArray:
        """Return the share under each seed, (S,), less that there if it is held against one; NaN: nothing to count."""
        counts = np.stack([tabulate(self.strata, row, self._width) for row in self.fates])
        return self._shares(counts.astype(np.float64))

    def mean(self) -> float:
        """Return the mean over the seeds; NaN where one has nothing to count."""
        return float(self.by_seed().mean())

    def estimate(self, bootstrap: Bootstrap) -> Estimate:
        """Return the mean over the seeds, with its percentile interval over seeds and items."""
        draws = self.draws(bootstrap, "first")
        return Estimate(self.mean(), percentile(draws, bootstrap.level))

    def draws(self, bootstrap: Bootstrap, system: str) -> FloatArray:
        """Return the mean in each resample, (R,); one resample of the items is the same for every system on them."""
        counts = resampled_counts(self.strata, self.fates, self._width, draws=bootstrap.draws, seed=bootstrap.seed)
        return resampled_seeds(self._shares(counts), seed=bootstrap.seed, system=system)

    @property
    def _width(self) -> int:
        """The rows of a table of strata by fates, which has one column more: room for both."""
        return max(int(Fate.UNCOUNTED), self.rooms.size)

    def _shares(self, counts: FloatArray) -> FloatArray:
        """Return the shares of tables of strata by fates, (..., width, width + 1)."""
        counts = counts[..., : self.rooms.size, :]
        if not self.held_against:
            every = counts.sum(axis=-2)
            happened = every[..., Fate.HAPPENED]
            return _over(happened, happened + every[..., Fate.DID_NOT])
        gaps, weights = np.zeros(counts.shape[:-2]), np.zeros(counts.shape[:-2])
        for room in np.unique(self.rooms):
            alike = counts[..., self.rooms == room, :].sum(axis=-2)
            mine, there = (alike[..., : Fate.HAPPENED_THERE], alike[..., Fate.HAPPENED_THERE : Fate.UNCOUNTED])
            n, m = mine.sum(axis=-1), there.sum(axis=-1)
            weight = np.nan_to_num(_over(n * m, n + m))
            gap = _over(mine[..., 0], n) - _over(there[..., 0], m)
            gaps += np.where(weight > 0.0, weight * gap, 0.0)
            weights += weight
        return _over(gaps, weights)


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


def ratio_of_means(first: SeededShares, second: SeededShares, bootstrap: Bootstrap, *, paired: bool) -> Estimate | None:
    """Return the first mean over the second, with its percentile interval; None where the second is 0, or one unknown.

    Where a resample has a second mean of 0 the ratio has no upper end, and no interval is given.

    Args:
        first: the share on top.
        second: the share below, on the same items.
        bootstrap: how the resamples are drawn.
        paired: whether row s of both was trained under the same seed; seeds are then drawn together, else apart.
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
    """
    if math.isnan(first.mean()) or math.isnan(second.mean()):
        raise DataError("a mean over seeds takes something to count under each", field="fates")
    tops, others = _both(first, second, bootstrap, paired=paired)
    draws = tops - others
    return MeanDifference(
        first.mean() - second.mean(), float(np.std(draws, ddof=1)), percentile(draws, bootstrap.level)
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


def _over(top: FloatArray, bottom: FloatArray) -> FloatArray:
    return np.divide(top, bottom, out=np.full(top.shape, math.nan), where=bottom != 0.0)
