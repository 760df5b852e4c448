"""Report of an evaluation of one system."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.evaluation import Answered, Evaluation, Evaluations, combine
from tinsmith.stats.intervals import wilson
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import DataError

LABELS = ("a", "b", "c")
QUICK = Bootstrap(draws=500)


def answered(
    item: str, gold: str, said: str | None, *, outcome: str = "ok", confidence: str | None = "high"
) -> Answered:
    """Return one answer; without a label it has failed its contract."""
    return Answered(
        item=item,
        gold=gold,
        predicted=said,
        outcome=outcome,
        parse_ok=outcome not in ("not_json", "fenced"),
        confidence=confidence if said else None,
        lenient=said or ("b" if outcome == "fenced" else None),
    )


@pytest.fixture
def evaluation() -> Evaluation:
    return Evaluation(
        LABELS,
        (
            answered("1", "a", "a"),
            answered("2", "a", "b", confidence="low"),
            answered("3", "b", None, outcome="fenced"),
            answered("4", "b", None, outcome="bad_keys"),
        ),
    )


def test_the_metrics_have_their_names_and_values(evaluation: Evaluation) -> None:
    found = evaluation.metrics("eval")
    expected = {
        "eval/label_match": 0.25,
        "eval/invalid_rate": 0.5,
        "eval/parse_ok": 0.75,
        "eval/format_strict_ok": 0.5,
        "eval/balanced_accuracy": 0.25,
        "eval/min_class_recall": 0.0,
        "eval/macro_f1": pytest.approx((2 / 3 + 0 + 0) / 3),
        "eval/recall/a": 0.5,
        "eval/precision/a": 1.0,
        "eval/predicted_share/b": 0.25,
        "eval/lenient_label_match": 0.5,
        "eval/lenient_invalid_rate": 0.25,
        "eval/brier": pytest.approx((0.04 + 0.04) / 2),
    }
    assert {key: found[key] for key in expected} == expected
    assert list(found) == sorted(found)
    assert "eval_greedy/macro_f1" in evaluation.metrics("eval_greedy")


def test_what_is_undefined_is_left_out_of_the_metrics(evaluation: Evaluation) -> None:
    found = evaluation.metrics()
    assert "eval/recall/c" not in found
    assert "eval/precision/c" not in found
    json.dumps(found, allow_nan=False)


def test_estimates_carry_the_same_values_and_intervals_that_hold_them(evaluation: Evaluation) -> None:
    values, found = evaluation.metrics("x"), evaluation.estimates(QUICK)
    for name, one in found.items():
        if f"x/{name}" in values:
            assert one.value == values[f"x/{name}"]
    assert found["label_match"].interval == wilson(1, 4)
    assert found["parse_ok"].interval == wilson(3, 4)
    f1 = found["macro_f1"]
    assert f1.interval.holds(f1.value)
    assert found["recall/c"].interval is None
    few = evaluation.estimates(QUICK, ("macro_f1", "parse_ok", "predicted_share"))
    assert set(few) == {"macro_f1", "parse_ok", *(f"predicted_share/{label}" for label in LABELS)}
    assert all(one == found[name] for name, one in few.items())


def test_seeds_are_combined_over_the_items_that_all_of_them_answered() -> None:
    first = Evaluation(LABELS, (answered("1", "a", "a"), answered("2", "b", "b")))
    second = Evaluation(LABELS, (answered("2", "b", "c"), answered("3", "c", "c")))
    runs = combine("s", [first, second])
    assert runs.items == ("2",)
    assert runs.predicted.tolist() == [[1], [2]]
    assert first.runs("s").num_seeds == 1
    assert [combine("s", [first, one]).num_given for one in (second, replace(second, num_given=9))] == [3, 9]


def test_evaluations_say_what_is_wrong() -> None:
    with pytest.raises(DataError, match="no answer"):
        Evaluation(LABELS, ())
    with pytest.raises(DataError, match="answered twice"):
        Evaluation(LABELS, (answered("1", "a", "a"), answered("1", "a", "a")))
    with pytest.raises(DataError, match="label = 'z'"):
        Evaluation(LABELS, (answered("1", "z", "a"),))
    one, other = (Evaluation(LABELS, (answered("1", gold, "a"),)) for gold in "ab")
    with pytest.raises(DataError, match="field: labels"):
        combine("s", [one, other])
    with pytest.raises(DataError, match="no evaluation"):
        combine("s", [])


BOOTSTRAP = Bootstrap(draws=400)


def evaluation_of(labels: str, golds: str, said: str) -> Evaluation:
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


FIRST = evaluation_of("ab", "aabbab", "aab.bb")
SECOND = evaluation_of("xy", "xyxyxx", "xyy.xy")
BOTH = Evaluations({"first": FIRST, "second": SECOND})


def test_exact_matches_and_independence_by_hand() -> None:
    # Right on the first: places 0 1 2 5; on the second: 0 1 4; on both: 0 1.
    assert BOTH.exact_match == pytest.approx(2 / 6)
    exact, independent, difference = BOTH.agreement(BOOTSTRAP)
    assert exact.value == pytest.approx(2 / 6)
    assert exact.interval == wilson(2, 6)
    assert independent.value == pytest.approx(4 / 6 * 3 / 6)
    assert difference.value == pytest.approx(0.0)
    assert BOTH.agreement(BOOTSTRAP) == (exact, independent, difference)
    assert difference.interval.low < 0 < difference.interval.high


def test_right_on_the_same_papers_is_told_from_independence() -> None:
    golds, half = "ab" * 100, "ab" * 50 + "ba" * 50
    *_, same = Evaluations({name: evaluation_of("ab", golds, half) for name in ("first", "second")}).agreement(
        BOOTSTRAP
    )
    assert same.value == pytest.approx(0.25)
    assert same.interval.low > 0.2


def test_trading_one_label_for_the_other_is_below_independence() -> None:
    golds = "a" * 100
    exact, _, difference = Evaluations(
        {
            "first": evaluation_of("ab", golds, "a" * 50 + "b" * 50),
            "second": evaluation_of("ab", golds, "b" * 50 + "a" * 50),
        }
    ).agreement(BOOTSTRAP)
    assert exact.value == 0.0
    assert difference.value == pytest.approx(-0.25)
    assert difference.interval.high < 0


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
