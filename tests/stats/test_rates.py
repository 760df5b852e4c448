"""Scores of confusion matrices by hand and against scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score, recall_score

from tinsmith.stats import rates
from tinsmith.stats.rates import ClassMetric, Confusion, Metric, best_constant, collapsed_macro_f1, encode
from tinsmith.types.errors import DataError

pytestmark = pytest.mark.whole

LABELS = ("disruptive", "consolidating", "neutral")
# The matrix that rl-methods 3.4 works with: 145 / 166 / 189 items, macro-F1 0.2914.
EXP4 = np.array([[1, 80, 64, 0], [2, 47, 117, 0], [1, 38, 150, 0]])

answers = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from((*LABELS, None))), min_size=1, max_size=60)


def test_the_worked_matrix_has_the_figures_worked_out_by_hand() -> None:
    confusion = Confusion(LABELS, EXP4)
    assert confusion.score(Metric.LABEL_MATCH) == 198 / 500
    assert confusion.score(Metric.MACRO_F1) == pytest.approx(0.2914, abs=5e-5)
    assert confusion.class_score(ClassMetric.RECALL)["disruptive"] == 1 / 145
    assert confusion.class_score(ClassMetric.PRECISION)["disruptive"] == 1 / 4
    assert confusion.class_score(ClassMetric.PREDICTED_SHARE)["neutral"] == 331 / 500
    assert confusion.score(Metric.MIN_CLASS_RECALL) == 1 / 145
    expected = (1 / 145 * 47 / 166 * 150 / 189) ** (1 / 3)
    assert confusion.score(Metric.G_MEAN) == pytest.approx(expected, rel=1e-12)


def test_an_invalid_answer_is_wrong_and_is_no_prediction() -> None:
    confusion = Confusion.of(LABELS, ["disruptive", "neutral"], ["disruptive", None])
    assert confusion.score(Metric.LABEL_MATCH) == 0.5
    assert confusion.score(Metric.INVALID_RATE) == 0.5
    assert confusion.class_score(ClassMetric.RECALL) == {
        "disruptive": 1.0,
        "consolidating": pytest.approx(math.nan, nan_ok=True),
        "neutral": 0.0,
    }
    assert sum(confusion.class_score(ClassMetric.PREDICTED_SHARE).values()) == 0.5


def test_undefined_scores_are_nan_and_absent_labels_do_not_enter_means_of_recalls() -> None:
    confusion = Confusion.of(LABELS, ["disruptive"] * 4, ["disruptive"] * 3 + ["neutral"])
    assert math.isnan(confusion.class_score(ClassMetric.RECALL)["consolidating"])
    assert math.isnan(confusion.class_score(ClassMetric.PRECISION)["consolidating"])
    assert confusion.score(Metric.BALANCED_ACCURACY) == 0.75
    assert confusion.score(Metric.MIN_CLASS_RECALL) == 0.75
    assert confusion.score(Metric.G_MEAN) == 0.75
    assert confusion.class_score(ClassMetric.F1)["consolidating"] == 0.0


@settings(deadline=None)
@given(answers)
def test_scores_agree_with_scikit_learn(pairs: list[tuple[str, str | None]]) -> None:
    golds = [gold for gold, _ in pairs]
    predicted = [answer for _, answer in pairs]
    shown = [answer or "invalid" for answer in predicted]
    confusion = Confusion.of(LABELS, golds, predicted)
    ours = confusion.score(Metric.MACRO_F1)
    assert ours == pytest.approx(f1_score(golds, shown, labels=LABELS, average="macro", zero_division=0.0), abs=1e-12)
    present = sorted(set(golds))
    assert confusion.score(Metric.BALANCED_ACCURACY) == pytest.approx(
        recall_score(golds, shown, labels=present, average="macro", zero_division=0.0), abs=1e-12
    )
    if set(predicted) <= set(golds) and len(present) > 1:
        assert confusion.score(Metric.BALANCED_ACCURACY) == pytest.approx(
            balanced_accuracy_score(golds, shown), abs=1e-12
        )
    theirs = precision_score(golds, shown, labels=LABELS, average=None, zero_division=np.nan)
    mine = list(confusion.class_score(ClassMetric.PRECISION).values())
    np.testing.assert_allclose(mine, theirs, atol=1e-12)


@settings(deadline=None)
@given(st.lists(answers, min_size=2, max_size=5))
def test_a_stack_of_matrices_scores_like_each_alone(batches: list[list[tuple[str, str | None]]]) -> None:
    ones = [Confusion.of(LABELS, [g for g, _ in b], [a for _, a in b]) for b in batches]
    stack = np.stack([one.counts for one in ones]).astype(np.float64)
    for metric in Metric:
        alone = [one.score(metric) for one in ones]
        np.testing.assert_array_equal(rates.SCORES[metric](stack), alone)


def test_constant_answers_score_what_the_formula_says() -> None:
    golds = ["disruptive"] * 693 + ["neutral"] * 700 + ["consolidating"] * 607
    constant = Confusion.of(LABELS, golds, ["disruptive"] * len(golds))
    assert constant.score(Metric.LABEL_MATCH) == 0.3465
    assert constant.score(Metric.MACRO_F1) == pytest.approx(0.171556, abs=5e-7)
    assert collapsed_macro_f1(0.3465, 3) == pytest.approx(0.171556, abs=5e-7)
    assert best_constant(LABELS, golds, Metric.LABEL_MATCH) == "neutral"


def test_the_seeds_constant_baselines() -> None:
    golds = ["disruptive"] * 145 + ["consolidating"] * 166 + ["neutral"] * 189
    scores = [Confusion.of(LABELS, golds, [label] * len(golds)).score(Metric.MACRO_F1) for label in LABELS]
    assert [round(score, 3) for score in scores] == [0.150, 0.166, 0.183]
    assert best_constant(LABELS, golds, Metric.BALANCED_ACCURACY) == "disruptive"  # all equal


def test_unknown_labels_and_bad_tables_are_named() -> None:
    with pytest.raises(DataError, match="label = 'novel'"):
        encode(LABELS, ["novel"])
    with pytest.raises(DataError, match="distinct"):
        encode(("a", "a"), ["a"])
    with pytest.raises(DataError, match="3 rows and 4 columns"):
        Confusion(LABELS, np.zeros((3, 3), np.int64))
    with pytest.raises(DataError, match="field: predicted = 0"):
        Confusion.of(LABELS, ["neutral"], [])
