"""Tests of significance against scipy, by hand, and by enumeration."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tinsmith.stats.estimates import Runs
from tinsmith.stats.significance import holm, items_needed, mcnemar
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


def test_items_needed_are_those_of_the_reference() -> None:
    assert [items_needed(gain) for gain in (0.06863, 0.03431, 0.01535)] == [500, 2001, 9994]


def test_power_says_what_it_needs() -> None:
    with pytest.raises(ConfigError, match="discordance"):
        items_needed(0.1, discordance=0.0)
    with pytest.raises(ConfigError, match=r"power = \(0\.3, 0\.05, 1\.5\)"):
        items_needed(0.1, power=1.5)
    with pytest.raises(ConfigError, match="field: effect"):
        items_needed(0.0)
