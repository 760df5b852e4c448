"""What an evaluation of one system reports."""

from __future__ import annotations

import json

import pytest

from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.evaluation import Answered, Evaluation, combine
from tinsmith.stats.intervals import wilson
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
    assert f1.interval is not None
    assert f1.interval.holds(f1.value)
    assert found["recall/c"].interval is None


def test_outcomes_are_counted_by_name(evaluation: Evaluation) -> None:
    assert evaluation.outcomes() == {"bad_keys": 1, "fenced": 1, "ok": 2}


def test_seeds_are_combined_over_the_items_that_all_of_them_answered() -> None:
    first = Evaluation(LABELS, (answered("1", "a", "a"), answered("2", "b", "b")))
    second = Evaluation(LABELS, (answered("2", "b", "c"), answered("3", "c", "c")))
    runs = combine("s", [first, second])
    assert runs.items == ("2",)
    assert runs.predicted.tolist() == [[1], [2]]
    assert first.runs("s").num_seeds == 1


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
