"""The mean of one number a seed, with Student's interval: for what is measured of a whole run, and not item by item."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tinsmith.stats.intervals import Interval

_T_975: Final = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
)
"""Of 1 to 20 degrees of freedom; beyond, the last one is a little too wide."""


def mean_over_seeds(values: Sequence[float]) -> tuple[float, Interval | None]:
    """Return the mean, and its 95 % interval: mean +- t(n - 1) s / sqrt(n); none of a single seed.

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
