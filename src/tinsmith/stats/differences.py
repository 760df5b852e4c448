"""Differences of two shares with their intervals: independent ones, two answers to the same items, within strata.

Newcombe's are put together from Wilson's intervals of the two shares, so that they stay inside [-1, 1] and hold
where a share is 0 or 1; within strata they are Mantel and Haenszel's with Sato's variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from tinsmith.stats.intervals import Interval, checked_level, wilson
from tinsmith.types.errors import DataError


def share_difference(first: int, first_n: int, second: int, second_n: int, level: float = 0.95) -> Interval:
    """Return the interval of first / first_n - second / second_n, two independent shares.

    low = d - sqrt((p1 - l1)^2 + (u2 - p2)^2), high = d + sqrt((u1 - p1)^2 + (p2 - l2)^2).
    Source: Newcombe, Statistics in Medicine 17 (1998) 873-890, method 10.

    >>> str(share_difference(56, 70, 48, 80))
    '[0.052, 0.334]'
    """
    return _joined(first, first_n, second, second_n, 0.0, level)


def paired_difference(both: int, only_first: int, only_second: int, neither: int, level: float = 0.95) -> Interval:
    """Return the interval of (only_first - only_second) / n, from what two answers to n items did.

    As `share_difference`, minus 2 phi (p1 - l1)(u2 - p2) and 2 phi (u1 - p1)(p2 - l2) under the roots.
    phi is the correlation of the two, with n / 2 taken from its numerator where that is positive (not
    below 0), and 0 where a margin is empty.
    Source: Newcombe, Statistics in Medicine 17 (1998) 2635-2650, method 10.
    """
    counts = (both, only_first, only_second, neither)
    n = sum(counts)
    if min(counts) < 0 or n == 0:
        raise DataError("counts of items are not negative, and some item is there", value=counts)
    margins = (both + only_first) * (only_second + neither) * (both + only_second) * (only_first + neither)
    above = float(both * neither - only_first * only_second)
    if above > 0.0:
        above = max(above - n / 2.0, 0.0)
    phi = above / math.sqrt(margins) if margins else 0.0
    return _joined(both + only_first, n, both + only_second, n, phi, level)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Two groups that are alike but for what is asked about: how many did it, of how many, in each."""

    first: int
    first_n: int
    second: int
    second_n: int


def stratified_difference(strata: Sequence[Stratum], level: float = 0.95) -> tuple[float, Interval] | None:
    """Return first minus second within strata, and its interval; None where no stratum has both groups.

    sum w (first / first_n - second / second_n) / sum w with w = first_n second_n / (first_n + second_n), after Mantel
    and Haenszel; variance (d sum P + sum Q) / (sum w)^2, P = (n1^2 c - n2^2 a + n1 n2 (n2 - n1) / 2) / N^2,
    Q = (a (n2 - c) + c (n1 - a)) / 2N for a of n1 and c of n2. Cut to [-1, 1]; where that variance is 0 (in every
    stratum nobody did it, or everybody) Newcombe's intervals of the strata are put together, their reaches times
    w / sum w squared and summed (MOVER).
    Source: Sato, Greenland and Robins, Biometrics 45 (1989) 1323-1324.

    >>> value, interval = stratified_difference([Stratum(9, 10, 1, 10), Stratum(5, 50, 5, 50)])
    >>> f"{value:.3f} {interval}"
    '0.133 [0.002, 0.265]'
    """
    checked_level(level)
    for one in strata:
        if not 0 <= one.first <= one.first_n or not 0 <= one.second <= one.second_n:
            raise DataError("there are more successes than items", value=one)
    both = [one for one in strata if one.first_n and one.second_n]
    if not both:
        return None
    weight = math.fsum(_weight(one) for one in both)
    value = math.fsum(_weight(one) * _gap(one) for one in both) / weight
    spread = math.fsum(value * _sato_p(one) + _sato_q(one) for one in both) / weight**2
    if spread <= 0.0:
        ends = [share_difference(one.first, one.first_n, one.second, one.second_n, level) for one in both]
        terms = [(_weight(one) / weight, _gap(one), end) for one, end in zip(both, ends, strict=True)]
        down, up = mover_reaches(terms)
        return value, Interval(max(value - down, -1.0), min(value + up, 1.0), level)
    reach = NormalDist().inv_cdf(0.5 + level / 2.0) * math.sqrt(spread)
    return value, Interval(max(value - reach, -1.0), min(value + reach, 1.0), level)


def mover_reaches(terms: Sequence[tuple[float, float, Interval]]) -> tuple[float, float]:
    """Return how far down and up the interval of a weighted sum reaches, from (weight, value, interval) of each term.

    Terms are independent: down = sqrt(sum w^2 r^2), with r = value - low where w > 0 and high - value where w < 0; up
    the other way round.
    Source: Zou and Donner, Statistics in Medicine 27 (2008) 1693-1702 (MOVER).
    """
    down: list[float] = []
    up: list[float] = []
    for weight, value, ends in terms:
        below, above = abs(weight) * (value - ends.low), abs(weight) * (ends.high - value)
        down.append(below if weight > 0.0 else above)
        up.append(above if weight > 0.0 else below)
    return math.hypot(*down), math.hypot(*up)


def _weight(one: Stratum) -> float:
    return one.first_n * one.second_n / (one.first_n + one.second_n)


def _gap(one: Stratum) -> float:
    return one.first / one.first_n - one.second / one.second_n


def _sato_p(one: Stratum) -> float:
    n1, n2 = one.first_n, one.second_n
    counted = n1 * n1 * one.second - n2 * n2 * one.first + n1 * n2 * (n2 - n1) / 2.0
    return counted / (n1 + n2) ** 2


def _sato_q(one: Stratum) -> float:
    n1, n2 = one.first_n, one.second_n
    return (one.first * (n2 - one.second) + one.second * (n1 - one.first)) / (2.0 * (n1 + n2))


def _joined(first: int, first_n: int, second: int, second_n: int, phi: float, level: float) -> Interval:
    one, other = wilson(first, first_n, level), wilson(second, second_n, level)
    p1, p2 = first / first_n, second / second_n
    d = p1 - p2
    down, across = p1 - one.low, other.high - p2
    low = d - math.sqrt(max(down * down - 2.0 * phi * down * across + across * across, 0.0))
    up, across = one.high - p1, p2 - other.low
    high = d + math.sqrt(max(up * up - 2.0 * phi * up * across + across * across, 0.0))
    return Interval(max(low, -1.0), min(high, 1.0), level)
