"""Intervals: Wilson's for a share, percentiles of bootstrap draws, Student's over seeds.

Nothing here draws; the draws come from tinsmith.stats.estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from tinsmith.stats.rates import FloatArray
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.page_names import decimals

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided interval that covers the true value in `level` of all cases; both ends belong to it."""

    low: float
    high: float
    level: float

    def holds(self, value: float) -> bool:
        """Return True if the interval contains `value`."""
        return self.low <= value <= self.high

    def above(self, value: float) -> bool:
        """Return true if the whole interval lies above `value`."""
        return self.low > value

    def hull(self, other: Interval) -> Interval:
        """Return the smallest interval that contains both."""
        return Interval(min(self.low, other.low), max(self.high, other.high), self.level)

    def within(self, margin: float) -> bool:
        """Return True if the interval lies strictly inside (-margin, margin), as in an equivalence test.

        With level 0.90 this is the two one-sided tests at 0.05 each (Schuirmann 1987).
        """
        return -margin < self.low and self.high < margin

    def __str__(self) -> str:
        return f"[{decimals(self.low)}, {decimals(self.high)}]"


def wilson(successes: int, n: int, level: float = 0.95) -> Interval:
    """Return Wilson's score interval of a share.

    Centre (p + z^2/2n) / (1 + z^2/n), half width z sqrt(p(1-p)/n + z^2/4n^2) / (1 + z^2/n).
    Source: Wilson, JASA 22 (1927), without continuity correction.

    >>> str(wilson(198, 500))
    '[0.354, 0.440]'
    """
    if n < 1 or not 0 <= successes <= n:
        raise DataError("a share has 0 to n successes among n >= 1 items", field="successes, n", value=(successes, n))
    z = _NORMAL.inv_cdf(1.0 - (1.0 - checked_level(level)) / 2.0)
    p, w = successes / n, z * z / n
    centre = (p + w / 2.0) / (1.0 + w)
    half = z * math.sqrt(p * (1.0 - p) / n + w / (4.0 * n)) / (1.0 + w)
    low = 0.0 if successes == 0 else max(centre - half, 0.0)
    high = 1.0 if successes == n else min(centre + half, 1.0)
    return Interval(low, high, level)


def percentile(draws: FloatArray, level: float = 0.95) -> Interval | None:
    """Return the central `level` of bootstrap draws, shape (R,); None where no draw is a number.

    A draw that is NaN (a score undefined in that resample) is left out.
    Source: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), ch. 13.
    """
    tail = (1.0 - checked_level(level)) / 2.0
    draws = draws[~np.isnan(draws)]
    if draws.size == 0:
        return None
    ends = np.quantile(draws, [tail, 1.0 - tail])
    return Interval(float(ends[0]), float(ends[1]), level)


def checked_level(level: float) -> float:
    """Return `level`."""
    if not 0.0 < level < 1.0:
        what = "the level of an interval must be a share"
        raise ConfigError(what, field="level", value=level, allowed="strictly between 0 and 1, such as 0.95")
    return level


_T_975: Final = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
)
"""Quantiles for 1 to 20 degrees of freedom; the last one is used beyond, slightly too wide."""


def mean_over_seeds(values: Sequence[float]) -> tuple[float, Interval | None]:
    """Return the mean with its 95 % interval, mean +- t(n - 1) s / sqrt(n); no interval for one seed.

    Source: Student, Biometrika 6 (1908).

    >>> mean, interval = mean_over_seeds([1.0, 2.0, 3.0])
    >>> mean, round(interval.low, 3), round(interval.high, 3)
    (2.0, -0.484, 4.484)
    """
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return mean, None
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1))
    half = _T_975[min(count - 1, len(_T_975)) - 1] * spread / math.sqrt(count)
    return mean, Interval(mean - half, mean + half, 0.95)
