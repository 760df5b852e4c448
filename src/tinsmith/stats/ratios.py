"""The interval of a ratio of two shares, put together from Wilson's intervals of the two."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinsmith.stats.intervals import Interval, wilson


@dataclass(frozen=True, slots=True)
class ShareRatio:
    """first / second, and where the true ratio may lie."""

    value: float
    interval: Interval

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.interval.low:.2f}, {self.interval.high:.2f}]"


def share_ratio(first: int, first_n: int, second: int, second_n: int, level: float = 0.95) -> ShareRatio | None:
    """Return (first / first_n) / (second / second_n), two independent shares; None where the second is 0.

    With shares p, q, their limits l, u, and w(x, y) = x (2 y - x):
    low = (p q - sqrt(p^2 q^2 - w(l_p, p) w(u_q, q))) / w(u_q, q),
    high = (p q + sqrt(p^2 q^2 - w(u_p, p) w(l_q, q))) / w(l_q, q).
    Source: Donner and Zou, Statistical Methods in Medical Research 21 (2012) 347-359, MOVER for ratios.

    >>> str(share_ratio(20, 100, 40, 100))
    '0.50 [0.32, 0.78]'
    """
    one, other = wilson(first, first_n, level), wilson(second, second_n, level)
    if second == 0:
        return None
    p, q = first / first_n, second / second_n
    up, down = _w(other.high, q), _w(other.low, q)
    lowest = _w(one.low, p)
    # (x - r) / up with x^2 - r^2 = lowest up, written so that up may be 0 or less.
    low = lowest / (p * q + math.sqrt(p * p * q * q - lowest * up)) if lowest > 0.0 else 0.0
    high = (p * q + math.sqrt(p * p * q * q - _w(one.high, p) * down)) / down
    return ShareRatio(p / q, Interval(low, high, level))


def _w(limit: float, share: float) -> float:
    return limit * (2.0 * share - limit)
