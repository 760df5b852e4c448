"""Means of shares over seeds and items: by hand, against a bootstrap written out, and where nothing can be counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinsmith.stats.differences import Stratum, stratified_difference
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.intervals import wilson
from tinsmith.stats.seeded_shares import Fate, SeededShares, difference_of_means, ratio_of_means
from tinsmith.types.errors import DataError

Y, N, U = Fate.HAPPENED, Fate.DID_NOT, Fate.UNCOUNTED
DRAWN = Bootstrap(draws=4000)


def shares(*rows: list[Fate], held_against: bool = False) -> SeededShares:
    return SeededShares.of([0] * len(rows[0]), rows, held_against=held_against)


def drawn(share: float, items: int, seeds: int, seed: int) -> list[list[Fate]]:
    rng = np.random.default_rng(seed)
    return [[Y if x < share else N for x in row] for row in rng.random((seeds, items))]


def test_what_is_not_counted_is_neither() -> None:
    found = shares([Y, N, N, N], [Y, Y, N, U])
    assert found.by_seed().tolist() == [0.25, 2 / 3]
    assert found.mean() == pytest.approx((0.25 + 2 / 3) / 2)


def test_a_share_may_be_held_against_another_group() -> None:
    there, not_there = Fate.HAPPENED_THERE, Fate.DID_NOT_THERE
    row = [Y, Y, Y, N, there, not_there, not_there, not_there]
    assert shares(row, held_against=True).mean() == pytest.approx(0.75 - 0.25)


def test_shares_are_compared_within_rooms_as_mantel_and_haenszel_do() -> None:
    there, not_there = Fate.HAPPENED_THERE, Fate.DID_NOT_THERE
    rooms = [(9, 1, 1, 9), (5, 45, 5, 45)]
    row = [fate for counts in rooms for fate, n in zip((Y, N, there, not_there), counts, strict=True) for _ in range(n)]
    of = [place for place, counts in enumerate(rooms) for _ in range(sum(counts))]
    found = SeededShares.of([0] * len(row), [row], held_against=True, rooms=of)
    other = stratified_difference([Stratum(9, 10, 1, 10), Stratum(5, 50, 5, 50)])
    assert other is not None
    assert found.mean() == pytest.approx(other[0])
    interval = found.estimate(DRAWN).interval
    assert interval is not None
    assert interval.low == pytest.approx(other[1].low, abs=0.04)
    assert interval.high == pytest.approx(other[1].high, abs=0.04)
    # A room with one of the two groups alone says nothing.
    lonely = SeededShares.of([0] * 4, [[Y, there, Y, Y]], held_against=True, rooms=[0, 0, 1, 1])
    assert lonely.mean() == 0.0


def test_one_seed_has_the_interval_of_a_share() -> None:
    found = shares([Y] * 60 + [N] * 140).estimate(DRAWN).interval
    other = wilson(60, 200)
    assert found is not None
    assert found.low == pytest.approx(other.low, abs=0.01)
    assert found.high == pytest.approx(other.high, abs=0.01)


def test_seeds_that_differ_widen_it() -> None:
    half, all_of_them, none = [Y, N] * 100, [Y] * 200, [N] * 200
    alike = shares(half, half, half).estimate(DRAWN).interval
    apart = shares(half, all_of_them, none).estimate(DRAWN).interval
    assert alike is not None
    assert apart is not None
    assert apart.high - apart.low > 4 * (alike.high - alike.low)


def test_a_ratio_is_one_of_means_and_agrees_with_a_bootstrap_written_out() -> None:
    first, second = drawn(0.1, 300, 4, seed=1), drawn(0.3, 300, 4, seed=2)
    tops, bottoms = (np.array([[f == Y for f in row] for row in rows], float) for rows in (first, second))
    rng = np.random.default_rng(3)
    ratios: list[float] = []
    for _ in range(4000):
        items = rng.integers(0, 300, 300)
        one, other = rng.integers(0, 4, 4), rng.integers(0, 4, 4)
        ratios.append(float(tops[one][:, items].mean()) / float(bottoms[other][:, items].mean()))
    low, high = np.quantile(ratios, [0.025, 0.975])
    found = ratio_of_means(shares(*first), shares(*second), DRAWN, paired=False)
    assert found is not None
    assert found.value == pytest.approx(tops.mean() / bottoms.mean())
    assert found.interval is not None
    assert found.interval.low == pytest.approx(low, abs=0.02)
    assert found.interval.high == pytest.approx(high, abs=0.02)


def test_seeds_drawn_together_cancel_what_they_share() -> None:
    easy, hard = [Y] * 150 + [N] * 50, [Y] * 30 + [N] * 170
    first, second = shares(easy, hard), shares(easy, hard)
    together = difference_of_means(first, second, DRAWN, paired=True)
    apart = difference_of_means(first, second, DRAWN, paired=False)
    assert together.value == apart.value == 0.0
    assert together.standard_error == 0.0
    assert apart.standard_error > 0.2
    assert together.not_below


def test_below_by_more_than_a_standard_error_is_told() -> None:
    worse = difference_of_means(shares([Y] * 80 + [N] * 120), shares([Y] * 100 + [N] * 100), DRAWN, paired=False)
    assert worse.value == pytest.approx(-0.1)
    assert not worse.not_below


def test_what_cannot_be_counted_is_not_a_number() -> None:
    assert math.isnan(shares([U, U]).mean())
    assert shares([U, U]).estimate(DRAWN).interval is None
    never = shares([N, N])
    assert ratio_of_means(shares([Y, N]), never, DRAWN, paired=False) is None
    assert ratio_of_means(shares([Y, N]), shares([U, U]), DRAWN, paired=False) is None
    assert ratio_of_means(shares([U, U]), shares([Y, N]), DRAWN, paired=False) is None
    with pytest.raises(DataError, match="field: fates"):
        difference_of_means(shares([Y, N]), shares([U, U]), DRAWN, paired=False)


def test_a_ratio_that_may_have_no_end_has_no_interval() -> None:
    rarely = shares([Y] + [N] * 99)
    found = ratio_of_means(shares([Y] * 50 + [N] * 50), rarely, DRAWN, paired=False)
    assert found is not None
    assert found.value == pytest.approx(50.0)
    assert found.interval is None


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="field: items, seeds"):
        SeededShares.of([], [])
    with pytest.raises(DataError, match="one fate"):
        SeededShares.of([0, 0], [[Y]])
    with pytest.raises(DataError, match="same items"):
        ratio_of_means(shares([Y, N]), shares([Y, N, N]), DRAWN, paired=False)
    with pytest.raises(DataError, match="paired"):
        ratio_of_means(shares([Y, N]), shares([Y, N], [Y, N]), DRAWN, paired=True)
