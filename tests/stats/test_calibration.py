"""Stated confidence against scikit-learn's scores and by hand."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import brier_score_loss, log_loss

from tinsmith.stats.evaluation import STATED, calibration, spearman
from tinsmith.types.errors import DataError

answers = st.lists(st.tuples(st.sampled_from([*STATED, None]), st.booleans()), min_size=1, max_size=50)


@settings(deadline=None)
@given(answers)
def test_errors_agree_with_scikit_learn_over_stated_items(pairs: list[tuple[str | None, bool]]) -> None:
    found = calibration([word for word, _ in pairs], [right for _, right in pairs])
    stated = [(STATED[word], right) for word, right in pairs if word is not None]
    if not stated:
        assert math.isnan(found["brier"])
        return
    p, c = [p for p, _ in stated], [right for _, right in stated]
    assert found["brier"] == pytest.approx(brier_score_loss(c, p, pos_label=True))
    assert found["nll"] == pytest.approx(log_loss(c, p, labels=[False, True]))


def test_the_calibration_error_weighs_the_words_by_their_items() -> None:
    found = calibration(["high"] * 4 + ["low"] * 2 + [None], [True, True, True, False, False, False, False])
    # high: 3 of 4 right against 0.8; low: 0 of 2 against 0.2.
    assert found["ece"] == pytest.approx((abs(3 - 3.2) + abs(0 - 0.4)) / 6)


def test_a_perfectly_stated_confidence_has_no_error() -> None:
    words = ["high"] * 10 + ["medium"] * 10 + ["low"] * 10
    right = [i < 8 for i in range(10)] + [i < 5 for i in range(10)] + [i < 2 for i in range(10)]
    assert calibration(words, right)["ece"] == pytest.approx(0.0, abs=1e-15)


def test_unknown_words_are_named() -> None:
    with pytest.raises(DataError, match="confidence = 'certain'"):
        calibration(["certain"], [True])
    with pytest.raises(DataError, match="field: confidences"):
        calibration(["high"], [])


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=9))
def test_it_is_scipys(pairs: list[tuple[int, int]]) -> None:
    x, y = [float(one) for one, _ in pairs], [float(one) for _, one in pairs]
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert spearman(x, y) == pytest.approx(float(spearmanr(x, y).statistic), abs=1e-12)


def test_nothing_goes_along_with_a_constant() -> None:
    assert spearman([0.0, 0.5, 1.0], [0.2, 0.2, 0.2]) == 0.0
