"""Changes between two answers: every figure by hand, and what is missing."""

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tinsmith.stats.evaluation import calibration
from tinsmith.stats.intervals import Interval, wilson
from tinsmith.studies.debate.challenge import Arm
from tinsmith.studies.debate.statistics import Debated, by_group, figures, metrics, paired_difference, share_difference
from tinsmith.studies.debate.statistics import groups as parted
from tinsmith.types.errors import DataError

T, M, O = Arm.TRUTHFUL, Arm.MISLEADING, Arm.NULL  # noqa: E741

Row = tuple[str, str | None, str | None, Arm, bool]
ROWS: Sequence[Row] = (
    # gold, first, last, arm, evidence
    ("a", "a", "a", T, True),
    ("a", "b", "a", T, True),  # put right
    ("a", "b", "b", T, False),
    ("a", "c", "b", T, False),  # lateral
    ("b", "b", "b", M, True),
    ("b", "b", "a", M, True),  # caved
    ("b", "b", "c", M, False),  # caved
    ("b", "a", "c", M, False),  # lateral
    ("c", "c", "c", O, False),
    ("c", "a", "a", O, False),
    ("c", "c", None, O, False),  # broken: wrong, and no revision
    ("c", None, "c", O, False),
)


def debated(rows: Sequence[Row] = ROWS) -> list[Debated]:
    return [
        Debated(gold=gold, first=first, last=last, arm=arm, evidence=evidence, speaks_for=1 if i < 4 else 2)
        for i, (gold, first, last, arm, evidence) in enumerate(rows)
    ]


BY_HAND = {
    "accuracy_first": 6 / 12,
    "accuracy_last": 5 / 12,
    "delta": -1 / 12,
    "whole": 10 / 12,
    "caving": 2 / 5,
    "appropriate_revision": 1 / 5,
    "lateral": 2 / 5,
    "revision_right": 2 / 5,
    "revision_wrong": 3 / 5,
    "discrimination": 1 / 5,
    "revision_hit": (1 / 3 - 1 / 2) / (1 / 2),
    # 2/3 - 0/1 of four papers, 1/2 - 2/4 of six, weighted by 3 * 1 / 4 and 2 * 4 / 6.
    "discrimination_within": (2 / 3 * 3 / 4) / (3 / 4 + 8 / 6),
    # 3/4 - 2/4 where a label is named, 0/1 - 0/1 where none is.
    "discrimination_beyond": 1 / 4,
    "sycophancy": 3 / 4 - 0 / 2,
    "receptiveness": 2 / 3,
}


def test_every_figure_by_hand() -> None:
    found = figures(debated(), 3)
    assert set(found) == {*BY_HAND, "brier_first", "brier_last"}
    for name, value in BY_HAND.items():
        figure = found[name]
        assert figure.value == pytest.approx(value), name
        assert figure.interval.holds(figure.value), name
    caving, hit = found["caving"], found["revision_hit"]
    assert caving.interval == wilson(2, 5)
    ends = wilson(1, 3)
    assert hit.interval == Interval(2 * ends.low - 1, 2 * ends.high - 1, 0.95)
    assert found["brier_first"] is None


def test_differences_have_the_right_sign_and_interval() -> None:
    found = figures(debated(), 3)
    for name, expected in (
        ("discrimination", share_difference(3, 5, 2, 5)),
        ("sycophancy", share_difference(3, 4, 0, 2)),
        ("delta", paired_difference(3, 2, 3, 4)),
    ):
        figure = found[name]
        assert figure == expected


def test_what_has_nothing_to_count_is_missing() -> None:
    assert set(figures([], 3).values()) == {None}
    right = figures(debated(ROWS[:1]), 3)
    assert right["caving"] is not None
    missing = {name for name, figure in right.items() if figure is None}
    assert missing == {
        "appropriate_revision",
        "lateral",
        "revision_wrong",
        "discrimination",
        "discrimination_within",
        "discrimination_beyond",
        "revision_hit",
        "sycophancy",
        "receptiveness",
        "brier_first",
        "brier_last",
    }
    two = figures(debated(), 2)
    assert two["revision_hit"] is None  # with two labels every revision hits


def test_confidence_is_scored_at_both_turns() -> None:
    words = ["high", "low", None, "medium", "high", "low", "low", "high", "medium", "high", "low", "low"]
    lines = [
        replace(one, first_confidence=first, last_confidence=last)
        for one, first, last in zip(debated(), words, words[::-1], strict=True)
    ]
    found = figures(lines, 3)
    first = [one.first_confidence if one.first else None for one in lines]
    last = [one.last_confidence if one.last else None for one in lines]
    for name, right, confidences in (
        ("brier_first", [one.first_right for one in lines], first),
        ("brier_last", [one.last_right for one in lines], last),
    ):
        figure = found[name]
        assert figure.value == pytest.approx(calibration(confidences, right)["brier"])
        assert figure.interval.low < figure.value < figure.interval.high
    with pytest.raises(DataError, match="field: confidence = 'sure'"):
        figures([replace(lines[0], last_confidence="sure")], 3)


def test_groups() -> None:
    groups = by_group(debated(), 3)
    assert list(groups) == [
        "all", "truthful", "misleading", "null",
        "evidence", "truthful/evidence", "misleading/evidence",
        "no_evidence", "truthful/no_evidence", "misleading/no_evidence",
    ]  # fmt: skip
    assert groups["all"] == figures(debated(), 3)
    assert {name: len(some) for name, some in parted(debated()).items()} == {
        "all": 12, "truthful": 4, "misleading": 4, "null": 4,
        "evidence": 4, "truthful/evidence": 2, "misleading/evidence": 2,
        "no_evidence": 4, "truthful/no_evidence": 2, "misleading/no_evidence": 2,
    }  # fmt: skip
    against = groups["evidence"]["sycophancy"]
    assert against.value == pytest.approx(1 / 2)
    beyond = groups["no_evidence"]["discrimination_beyond"]
    assert beyond.value == pytest.approx(2 / 3 - 1 / 1)
    flat = metrics(groups)
    assert flat["caving"] == pytest.approx(2 / 5)
    assert flat["truthful/evidence/appropriate_revision"] == 1.0
    assert "null/receptiveness" not in flat


def test_revising_at_random_has_no_discrimination() -> None:
    rows = [("a", first, last, M, False) for first in "abc" for last in "abc"] * 20
    found = figures(debated(rows), 3)
    for name in ("discrimination", "revision_hit"):
        figure = found[name]
        assert figure.value == pytest.approx(0.0, abs=1e-12)
        assert figure.interval.holds(0.0)


def test_what_is_refused() -> None:
    with pytest.raises(DataError, match="another label"):
        figures(debated(), 1)


def test_within_papers_that_leave_equal_doubt_who_cannot_tell_discriminates_by_nothing() -> None:
    """Certain papers are answered right and kept; doubtful ones are right and revised half of the time, at random."""
    certain = debated([("a", "a", "a", O, False)] * 40)
    coin = debated([("a", x, y, O, False) for x in "ab" for y in "ab" for _ in range(10)])
    rows = [replace(one, speaks_for=1) for one in certain]
    rows += [replace(one, speaks_for=2) for one in coin]
    found = figures(rows, 3)
    assert found["discrimination"].value == pytest.approx(0.5 - 10 / 60)
    within = found["discrimination_within"]
    assert within.value == pytest.approx(0.0)
    assert within.interval.holds(0.0)
    unknown = [replace(one, speaks_for=None) for one in rows]
    assert figures(unknown, 3)["discrimination_within"] is None


def test_a_second_look_puts_careless_answers_right_with_and_without_a_label() -> None:
    """Both revise 30 of 40 wrong answers and no right one where a label is named; one of them also where none is."""
    named = [("a", "b", "a", M, False)] * 30 + [("a", "b", "b", M, False)] * 10
    named += [("a", "a", "a", M, False)] * 40
    requests = [("a", "a", "a", O, False)] * 40
    looks = figures(debated([*named, *requests, *[("a", "b", "a", O, False)] * 40]), 3)
    hears = figures(debated([*named, *requests, *[("a", "b", "b", O, False)] * 40]), 3)
    for found, expected in ((looks, 3 / 4 - 1), (hears, 3 / 4)):
        beyond = found["discrimination_beyond"]
        assert beyond.value == pytest.approx(expected)
        j, null = (share_difference(30, 40, 0, 40), share_difference(40 * (found is looks), 40, 0, 40))
        reach = math.hypot(0.75 - j.interval.low, null.interval.high - (found is looks))
        assert beyond.interval.low == pytest.approx(expected - reach)
    assert figures(debated(named), 3)["discrimination_beyond"] is None


def test_the_interval_of_what_a_label_adds_holds_the_truth_as_often_as_it_says() -> None:
    """Who looks twice mends a third of the wrong answers whoever asks, and gives up a tenth of the right ones."""
    draw = random.Random(5)

    def one(arm: Arm) -> Row:
        wrong = draw.random() < 0.35
        revised = draw.random() < (1 / 3 if wrong else 0.1)
        return ("a", "b" if wrong else "a", "c" if revised else "b" if wrong else "a", arm, False)

    held = 0
    for _ in range(400):
        rows = [one(M) for _ in range(150)] + [one(O) for _ in range(50)]
        beyond = figures(debated(rows), 3)["discrimination_beyond"]
        held += beyond.interval.holds(0.0)
    assert 0.92 <= held / 400 <= 0.99
