"""Tests of significance against scipy, by hand, and by enumeration."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tinsmith.stats import sign_flips as module
from tinsmith.stats.estimates import Runs
from tinsmith.stats.sign_flips import flip_p
from tinsmith.stats.significance import detectable_difference, holm, items_needed, mcnemar
from tinsmith.types.errors import ConfigError, DataError

LABELS = ("a", "b", "c")


def runs(name: str, golds: str, answers: str) -> Runs:
    """Return one model's answers, a letter an item; a dot is an invalid answer."""
    items = [str(i) for i in range(len(golds))]
    return Runs.of(name, LABELS, items, list(golds), [[None if x == "." else x for x in answers]])


def test_mcnemar_by_hand() -> None:
    assert mcnemar(5, 1).p_value == 0.21875
    assert mcnemar(0, 0).p_value == 1.0
    assert mcnemar(3, 3).p_value == 1.0


@settings(deadline=None)
@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_agrees_with_the_binomial_test(only_first: int, only_second: int) -> None:
    found = mcnemar(only_first, only_second).p_value
    if only_first + only_second:
        expected = stats.binomtest(only_first, only_first + only_second, 0.5).pvalue
        assert found == pytest.approx(expected, rel=1e-9)
    assert found == mcnemar(only_second, only_first).p_value


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == (0.03, 0.06, 0.06)
    assert holm([0.5, 0.9]) == (1.0, 1.0)
    assert holm([]) == ()
    with pytest.raises(DataError, match="between 0 and 1"):
        holm([1.5])


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.sampled_from((0.01, 0.05, 0.2)))
def test_holm_rejects_what_its_own_procedure_rejects(p_values: list[float], alpha: float) -> None:
    m = len(p_values)
    rejected = set[int]()
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        if p_values[i] * (m - rank) > alpha:
            break
        rejected.add(i)
    assert {i for i, p in enumerate(holm(p_values)) if p <= alpha} == rejected


def test_detectable_differences_of_the_reference() -> None:
    found = [round(100 * detectable_difference(n), 1) for n in (500, 2000, 10_000)]
    assert found == [6.9, 3.4, 1.5]


def test_power_says_what_it_needs() -> None:
    with pytest.raises(ConfigError, match="discordance"):
        detectable_difference(100, discordance=0.0)
    with pytest.raises(ConfigError, match="field: effect"):
        items_needed(0.0)


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
