"""Both labels right: the share, what independence would give, and every task's figures under its own name."""

from __future__ import annotations

import numpy as np
import pytest

from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.evaluation import Answered, Evaluation, Evaluations
from tinsmith.stats.intervals import wilson
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import DataError

BOOTSTRAP = Bootstrap(draws=400)


def evaluation(labels: str, golds: str, said: str) -> Evaluation:
    """One letter a label; a dot is an invalid answer."""
    answers = tuple(
        Answered(
            item=f"W{place}",
            gold=gold,
            predicted=None if one == "." else one,
            outcome="not_json" if one == "." else "ok",
            parse_ok=one != ".",
        )
        for place, (gold, one) in enumerate(zip(golds, said, strict=True))
    )
    return Evaluation(tuple(labels), answers)


FIRST = evaluation("ab", "aabbab", "aab.bb")
SECOND = evaluation("xy", "xyxyxx", "xyy.xy")
BOTH = Evaluations({"first": FIRST, "second": SECOND})


def test_exact_matches_and_independence_by_hand() -> None:
    # Right on the first: places 0 1 2 5; on the second: 0 1 4; on both: 0 1.
    assert BOTH.exact_match == pytest.approx(2 / 6)
    found = BOTH.agreement(BOOTSTRAP)
    assert found.exact_match.value == pytest.approx(2 / 6)
    assert found.exact_match.interval == wilson(2, 6)
    assert found.independent.value == pytest.approx(4 / 6 * 3 / 6)
    assert found.difference.value == pytest.approx(0.0)
    assert BOTH.agreement(BOOTSTRAP) == found
    assert found.difference.interval is not None
    assert found.difference.interval.low < 0 < found.difference.interval.high


def test_right_on_the_same_papers_is_told_from_independence() -> None:
    golds, half = "ab" * 100, "ab" * 50 + "ba" * 50
    same = Evaluations({name: evaluation("ab", golds, half) for name in ("first", "second")}).agreement(BOOTSTRAP)
    assert same.difference.value == pytest.approx(0.25)
    assert same.difference.interval is not None
    assert same.difference.interval.low > 0.2


def test_trading_one_label_for_the_other_is_below_independence() -> None:
    golds = "a" * 100
    found = Evaluations(
        {"first": evaluation("ab", golds, "a" * 50 + "b" * 50), "second": evaluation("ab", golds, "b" * 50 + "a" * 50)}
    ).agreement(BOOTSTRAP)
    assert found.exact_match.value == 0.0
    assert found.difference.value == pytest.approx(-0.25)
    assert found.difference.interval is not None
    assert found.difference.interval.high < 0


def test_metrics_stand_under_their_tasks_and_means_above_them() -> None:
    metrics = BOTH.metrics("test")
    assert metrics["test/first/macro_f1"] == FIRST.metrics("test")["test/macro_f1"]
    assert metrics["test/second/recall/y"] == SECOND.metrics("test")["test/recall/y"]
    expected = np.mean([one.confusion().score(Metric.MACRO_F1) for one in (FIRST, SECOND)])
    assert metrics["test/macro_f1"] == pytest.approx(expected)
    assert metrics["test/min_class_recall"] == min(
        metrics["test/first/min_class_recall"], metrics["test/second/min_class_recall"]
    )
    assert metrics["test/invalid_rate"] == pytest.approx(1 / 6)
    assert metrics["test/exact_match"] == BOTH.exact_match


def test_tasks_are_answered_for_the_same_items() -> None:
    shorter = Evaluation(SECOND.labels, SECOND.answers[1:])
    turned = Evaluation(SECOND.labels, SECOND.answers[::-1])
    for other in (shorter, turned):
        with pytest.raises(DataError, match="every item"):
            Evaluations({"first": FIRST, "second": other})
    with pytest.raises(DataError):
        Evaluations({})
