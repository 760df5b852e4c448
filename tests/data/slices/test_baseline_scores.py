"""The figures of a baseline: against scikit-learn, against enumeration, and their intervals."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score

from tinsmith.data.baselines.scores_by_row import figures, interval, prior_figures, resampled
from tinsmith.lab.labels.objectives import ShareTable
from tinsmith.stats.rates import Confusion, Metric

pytestmark = pytest.mark.whole


def _confusion(gold: list[int], predicted: list[int], classes: int = 3) -> np.ndarray:
    matrix = np.zeros((1, classes, classes))
    np.add.at(matrix[0], (gold, predicted), 1)
    return matrix


labels = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=40)


@given(labels)
def test_figures_equal_scikit_learns(rows: list[tuple[int, int]]) -> None:
    gold, predicted = [list(column) for column in zip(*rows, strict=True)]
    present = sorted(set(gold))
    found = figures(_confusion(gold, predicted), np.isin(np.arange(3), present))
    recalls = recall_score(gold, predicted, labels=present, average=None, zero_division=0)
    f1 = f1_score(gold, predicted, labels=[0, 1, 2], average="macro", zero_division=0)
    assert found.accuracy[0] == pytest.approx(accuracy_score(gold, predicted))
    assert found.macro_f1[0] == pytest.approx(f1)
    assert found.min_recall[0] == pytest.approx(recalls.min())
    assert found.recall[0, present] == pytest.approx(recalls)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(lambda g: 0 < sum(g) <= 5),
    st.lists(st.integers(1, 5), min_size=3, max_size=3),
)
def test_expected_figures_of_a_guess_equal_the_enumeration(gold: list[int], weights: list[int]) -> None:
    shares = np.array(weights) / sum(weights)
    rows = [k for k, count in enumerate(gold) for _ in range(count)]
    occurs = np.array(gold) > 0
    accuracy = macro_f1 = least = 0.0
    for guess in itertools.product(range(3), repeat=len(rows)):
        chance = math.prod(shares[k] for k in guess)
        one = figures(_confusion(rows, list(guess)), occurs)
        accuracy += chance * one.accuracy[0]
        macro_f1 += chance * one.macro_f1[0]
        least += chance * one.min_recall[0]
    exact = prior_figures(np.array(gold), shares)
    assert exact.accuracy[0] == pytest.approx(accuracy)
    assert exact.macro_f1[0] == pytest.approx(macro_f1)
    assert exact.min_recall[0] == pytest.approx(least)
    assert exact.recall[0, occurs] == pytest.approx(shares[occurs])


def test_the_seeds_held_out_split_by_its_own_shares() -> None:
    gold = np.array([145, 166, 189])
    found = prior_figures(gold, gold / 500)
    assert found.accuracy[0] == pytest.approx((145**2 + 166**2 + 189**2) / 500**2)
    majority = figures(_confusion([0] * 145 + [1] * 166 + [2] * 189, [2] * 500), gold > 0)
    assert majority.accuracy[0] == 0.378
    assert majority.min_recall[0] == 0


def test_intervals_are_seeded_and_as_wide_as_theory_says() -> None:
    confusion = np.array([[80.0, 10, 10], [30, 60, 10], [20, 20, 60]])
    first, again, other = (resampled(confusion, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert (first.sum((1, 2)) == 300).all()
    low, high = interval(figures(first, np.ones(3, np.bool_)).accuracy)
    p = 200 / 300
    half = 1.96 * math.sqrt(p * (1 - p) / 300)
    assert (low, high) == pytest.approx((p - half, p + half), abs=0.012)


def test_a_class_that_a_resample_misses_does_not_break_the_interval() -> None:
    confusion = np.array([[1.0, 0, 0], [0, 20, 0], [0, 0, 20]])
    found = figures(resampled(confusion, 0), np.ones(3, np.bool_))
    assert np.isnan(found.recall[:, 0]).any()
    assert interval(found.recall[:, 0]) == (1.0, 1.0)
    assert interval(found.min_recall) == (1.0, 1.0)
    assert interval(np.array([np.nan])) == (0.0, 1.0)


def test_a_class_that_is_never_found_keeps_the_least_recall_at_nothing() -> None:
    confusion = np.array([[26.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    found = figures(resampled(confusion, 0), confusion.sum(1) > 0)
    assert np.isnan(found.min_recall).any()  # a resample without one of the classes says nothing of it
    assert interval(found.min_recall) == (0.0, 0.0)


def test_macro_f1_is_one_definition_for_baselines_runs_and_rewards() -> None:
    cells = [[5, 1, 0], [2, 4, 0], [0, 0, 0]]
    by_run = Confusion(("a", "b", "c"), np.array([[*row, 0] for row in cells])).score(Metric.MACRO_F1)
    by_baseline = figures(np.array([cells], np.float64), np.array([True, True, False])).macro_f1[0]
    by_reward = ShareTable(tuple(tuple(n / 12 for n in (*row, 0)) for row in cells)).macro_f1()
    assert by_baseline == by_run == pytest.approx((10 / 13 + 8 / 11) / 3)
    assert by_reward == pytest.approx(by_run)
