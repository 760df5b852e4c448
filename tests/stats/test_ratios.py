"""The interval of a ratio of two shares: its ends, its mirror image, and how often it holds the truth."""

from __future__ import annotations

from math import comb, isfinite

import pytest

from tinsmith.stats.ratios import share_ratio
from tinsmith.types.errors import DataError


def covered(p: float, q: float, n: int, m: int) -> float:
    """Probability, summed over every outcome, that the interval holds p / q, where there is one."""
    total = held = 0.0
    for a in range(n + 1):
        for b in range(1, m + 1):
            chance = comb(n, a) * p**a * (1 - p) ** (n - a) * comb(m, b) * q**b * (1 - q) ** (m - b)
            found = share_ratio(a, n, b, m)
            assert found is not None
            total += chance
            held += chance * found.interval.holds(p / q)
    return held / total


@pytest.mark.parametrize(("p", "q", "n", "m"), [(0.2, 0.4, 30, 30), (0.1, 0.3, 40, 25)])
def test_it_holds_the_truth_about_as_often_as_it_says(p: float, q: float, n: int, m: int) -> None:
    assert 0.93 <= covered(p, q, n, m) <= 0.98


def test_the_ratio_the_other_way_round_has_the_reciprocal_interval() -> None:
    for a, n, b, m in ((7, 9, 4, 29), (1, 50, 1, 50), (20, 100, 40, 100), (5, 5, 1, 300)):
        one, other = share_ratio(a, n, b, m), share_ratio(b, m, a, n)
        assert one is not None
        assert other is not None
        assert one.interval.low == pytest.approx(1 / other.interval.high)
        assert one.interval.high == pytest.approx(1 / other.interval.low)
        assert one.interval.low <= one.value <= one.interval.high


def test_none_and_nothing() -> None:
    nothing = share_ratio(0, 50, 20, 50)
    assert nothing is not None
    assert (nothing.value, nothing.interval.low) == (0.0, 0.0)
    assert 0.0 < nothing.interval.high < 0.3
    assert isfinite(nothing.interval.high)
    assert share_ratio(3, 10, 0, 10) is None
    with pytest.raises(DataError):
        share_ratio(3, 2, 1, 10)
