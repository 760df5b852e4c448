"""Paired means: the gain and its test by hand and against scipy, and what few units allow."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tinsmith.stats import paired_means as module
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.paired_means import flip_p, mean_interval, paired_means
from tinsmith.types.errors import DataError


def drawn(n: int, seed: int, denominator: int = 12) -> list[Fraction]:
    random = np.random.Generator(np.random.PCG64(seed))
    return [Fraction(int(k), denominator) for k in random.integers(-4, 9, size=n)]


def scipy_p(gains: list[Fraction]) -> float:
    found = stats.permutation_test(
        (np.array([float(gain) for gain in gains]),),
        np.mean,
        permutation_type="samples",
        n_resamples=1 << len(gains),  # as many as there are: it goes through all
    )
    return float(found.pvalue)


@pytest.mark.parametrize(("n", "seed"), [(2, 0), (5, 1), (10, 2), (12, 3)])
def test_every_flip_is_counted_as_scipy_counts_them(n: int, seed: int) -> None:
    gains = drawn(n, seed)
    found, exact = flip_p(gains)
    assert exact
    assert found == pytest.approx(scipy_p(gains), abs=1e-12)


def test_all_three_ways_of_counting_flips_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = drawn(14, 5)
    listed, _ = flip_p(gains)
    monkeypatch.setattr(module, "_LISTED", 0)
    by_sums, exact = flip_p(gains)
    assert exact
    assert by_sums == pytest.approx(listed, rel=1e-12)
    monkeypatch.setattr(module, "_WORK", 0)
    by_draws, exact = flip_p(gains, seed=1)
    assert not exact
    # Five standard errors of a share of 100,000 draws.
    assert by_draws == pytest.approx(listed, abs=5 * (listed * (1 - listed) / 1e5) ** 0.5 + 1e-5)
    assert by_draws == flip_p(gains, seed=1)[0]
    assert by_draws != flip_p(gains, seed=2)[0]


def test_the_interval_is_scipys_up_to_the_draws() -> None:
    values = [float(gain) for gain in drawn(40, 7)]
    found = mean_interval(values, Bootstrap(draws=20_000))
    wanted = stats.bootstrap(
        (np.array(values),), np.mean, n_resamples=20_000, method="percentile", rng=3
    ).confidence_interval
    assert found is not None
    # An end of the interval moves by about one percent of the standard error between two sets of draws.
    spread = float(np.std(values)) / 40**0.5
    assert found.low == pytest.approx(wanted.low, abs=0.1 * spread)
    assert found.high == pytest.approx(wanted.high, abs=0.1 * spread)


def test_means_are_over_the_units_that_both_have() -> None:
    first = {"a": Fraction(1, 4), "b": Fraction(1, 2), "only": Fraction(1)}
    second = {"b": Fraction(1, 4), "a": Fraction(1), "other": Fraction(0)}
    found = paired_means(first, second, Bootstrap(draws=100))
    assert (found.n, found.first, found.second, found.gain) == (2, 0.375, 0.625, 0.25)
    assert (found.risen, found.fallen, found.exact, found.p_value) == (1, 1, True, 1.0)
    with pytest.raises(DataError, match="no unit"):
        paired_means({"a": Fraction(1)}, {"b": Fraction(1)}, Bootstrap(draws=100))


def test_few_units_are_not_told_apart_by_a_short_interval_alone() -> None:
    zero = {str(i): Fraction(0) for i in range(8)}
    some = {unit: Fraction(1, 2 + i) for i, unit in enumerate(zero)}
    few = {unit: some[unit] for unit in ("0", "1", "2")}
    found = paired_means(zero, few, Bootstrap())
    assert found.apart
    assert found.p_value == 0.25
    assert not found.told_apart
    assert paired_means(zero, some, Bootstrap()).told_apart  # 2 of 256 flips reach it
    alone = paired_means(zero, {"0": Fraction(1)}, Bootstrap())
    assert alone.interval is None
    assert not alone.apart


def test_no_gain_anywhere_is_p_one() -> None:
    assert flip_p([Fraction(0)] * 5) == (1.0, True)


def test_the_order_of_units_changes_nothing() -> None:
    first = {str(i): gain for i, gain in enumerate(drawn(30, 1))}
    second = {str(i): gain for i, gain in enumerate(drawn(30, 2))}
    turned = paired_means(dict(reversed(first.items())), second, Bootstrap(draws=500))
    assert turned == paired_means(first, second, Bootstrap(draws=500))
