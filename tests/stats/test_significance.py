"""Tests of significance against scipy, by hand, and by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tinsmith.stats.rates import SCORES, Metric
from tinsmith.stats.runs import Runs
from tinsmith.stats.significance import (
    detectable_difference,
    holm,
    items_needed,
    mcnemar,
    mcnemar_of,
    power_of,
    swap_test,
    tost,
)
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


def test_mcnemar_counts_items_that_one_system_got_right() -> None:
    first, second = runs("f", "aaabbc", "aaab.c"), runs("s", "aaabbc", "abbbbc")
    found = mcnemar_of(first, second)
    assert (found.only_first, found.only_second) == (2, 1)


def _swaps_enumerated(first: Runs, second: Runs, metric: Metric) -> float:
    """Return the exact p-value over all swaps."""
    score = SCORES[metric]
    a, b, golds = first.predicted[0], second.predicted[0], first.golds

    def scored(answers: np.ndarray) -> float:
        counts = np.zeros((3, 4))
        np.add.at(counts, (golds, answers), 1.0)
        return float(score(counts))

    observed = abs(scored(a) - scored(b))
    reached = [
        abs(scored(np.where(swap, b, a)) - scored(np.where(swap, a, b))) >= observed - 1e-12
        for swap in itertools.product([False, True], repeat=len(golds))
    ]
    return sum(reached) / len(reached)


@pytest.mark.parametrize("metric", [Metric.MACRO_F1, Metric.LABEL_MATCH, Metric.MIN_CLASS_RECALL])
def test_the_swap_test_agrees_with_all_swaps(metric: Metric) -> None:
    first, second = runs("f", "aaabbbccc", "aaabb.cca"), runs("s", "aaabbbccc", "abcbbaacb")
    exact = _swaps_enumerated(first, second, metric)
    assert swap_test(first, second, metric, draws=20_000) == pytest.approx(exact, abs=0.015)


def test_the_swap_test_knows_equal_systems_and_needs_single_models() -> None:
    first = runs("f", "aabbcc", "aabb.c")
    assert swap_test(first, first, Metric.MACRO_F1) == 1.0
    both = Runs("f", LABELS, first.items, first.golds, np.repeat(first.predicted, 2, axis=0))
    with pytest.raises(ConfigError, match="one each"):
        swap_test(both, first, Metric.MACRO_F1)
    with pytest.raises(ConfigError, match="one each"):
        mcnemar_of(first, both)


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


def test_equivalence_needs_both_sides() -> None:
    equal = tost(50, 50, 10_000, margin=0.01)
    assert equal.difference == 0.0
    assert equal.p_value < 1e-10
    assert tost(200, 100, 10_000, margin=0.01).p_value == pytest.approx(0.5, abs=1e-9)
    assert tost(300, 100, 10_000, margin=0.01).p_value > 0.99
    assert tost(5, 5, 100, margin=0.01).p_value > 0.3
    assert tost(0, 0, 100).p_value == 0.0
    by_hand = stats.norm.sf((0.01 - 0.002) / (np.sqrt(120 - 20**2 / 10_000) / 10_000))
    assert tost(70, 50, 10_000).p_value == pytest.approx(by_hand, rel=1e-9)
    with pytest.raises(DataError, match="b \\+ c"):
        tost(60, 60, 100)
    with pytest.raises(ConfigError, match="margin"):
        tost(1, 1, 100, margin=0.0)


def test_detectable_differences_of_the_reference() -> None:
    found = [round(100 * detectable_difference(n), 1) for n in (500, 2000, 10_000)]
    assert found == [6.9, 3.4, 1.5]


@settings(deadline=None)
@given(st.integers(50, 50_000), st.floats(0.05, 0.9))
def test_power_inverts_the_detectable_difference(n: int, discordance: float) -> None:
    effect = detectable_difference(n, discordance=discordance)
    assert power_of(n, effect, discordance=discordance) == pytest.approx(0.8, abs=1e-4)
    needed = items_needed(effect, discordance=discordance)
    assert abs(needed - n) <= 1


def test_power_says_what_it_needs() -> None:
    with pytest.raises(ConfigError, match="discordance"):
        detectable_difference(100, discordance=0.0)
    with pytest.raises(ConfigError, match="field: effect"):
        items_needed(0.0)
