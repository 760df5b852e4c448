"""Newcombe's intervals of a difference of two shares: independent ones, and two answers to the same items.

Both are put together from Wilson's intervals of the two shares, so that they stay inside [-1, 1] and hold
where a share is 0 or 1.
"""

from __future__ import annotations

import math

from tinsmith.analysis.intervals import Interval, wilson
from tinsmith.types.errors import DataError


def share_difference(
    first: int, first_n: int, second: int, second_n: int, level: float = 0.95
) -> Interval:
    """Return the interval of first / first_n - second / second_n, two independent shares.

    low = d - sqrt((p1 - l1)^2 + (u2 - p2)^2), high = d + sqrt((u1 - p1)^2 + (p2 - l2)^2).
    Source: Newcombe, Statistics in Medicine 17 (1998) 873-890, method 10.

    Raises:
        DataError: a share has no items, or more successes than items.
        ConfigError: the level is not strictly between 0 and 1.

    >>> str(share_difference(56, 70, 48, 80))
    '[0.052, 0.334]'
    """
    return _joined(first, first_n, second, second_n, 0.0, level)


def paired_difference(
    both: int, only_first: int, only_second: int, neither: int, level: float = 0.95
) -> Interval:
    """Return the interval of (only_first - only_second) / n, from what two answers to n items did.

    As `share_difference`, minus 2 phi (p1 - l1)(u2 - p2) and 2 phi (u1 - p1)(p2 - l2) under the roots.
    phi is the correlation of the two, with n / 2 taken from its numerator where that is positive (not
    below 0), and 0 where a margin is empty.
    Source: Newcombe, Statistics in Medicine 17 (1998) 2635-2650, method 10.

    Raises:
        DataError: there is no item, or a count is negative.
        ConfigError: the level is not strictly between 0 and 1.
    """
    counts = (both, only_first, only_second, neither)
    n = sum(counts)
    if min(counts) < 0 or n == 0:
        raise DataError("counts of items are not negative, and some item is there", value=counts)
    margins = (
        (both + only_first)
        * (only_second + neither)
        * (both + only_second)
        * (only_first + neither)
    )
    above = float(both * neither - only_first * only_second)
    if above > 0.0:
        above = max(above - n / 2.0, 0.0)
    phi = above / math.sqrt(margins) if margins else 0.0
    return _joined(both + only_first, n, both + only_second, n, phi, level)


def _joined(
    first: int, first_n: int, second: int, second_n: int, phi: float, level: float
) -> Interval:
    one, other = wilson(first, first_n, level), wilson(second, second_n, level)
    p1, p2 = first / first_n, second / second_n
    d = p1 - p2
    down, across = p1 - one.low, other.high - p2
    low = d - math.sqrt(max(down * down - 2.0 * phi * down * across + across * across, 0.0))
    up, across = one.high - p1, p2 - other.low
    high = d + math.sqrt(max(up * up - 2.0 * phi * up * across + across * across, 0.0))
    return Interval(max(low, -1.0), min(high, 1.0), level)
