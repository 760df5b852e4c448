"""Flips of the signs of exact gains, counted in three ways and by scipy."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tinsmith.stats import significance as module
from tinsmith.stats.significance import flip_p


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


def test_no_gain_anywhere_is_p_one() -> None:
    assert flip_p([Fraction(0)] * 5) == (1.0, True)
