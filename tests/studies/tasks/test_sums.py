"""Task of `metacognition`: units, plans and shortcuts graded by a program, and a list of everything caught."""

from random import Random
from statistics import fmean

import pytest

from tinsmith.studies.metacognition import (
    DIGITS,
    OPERATIONS,
    WORDS,
    demonstrate,
    digit_of,
    every_unit,
    items,
    marks,
    result,
    solution,
    words_of,
    written,
)

ITEM = {"id": "x", "a": "kettle", "f": "add", "b": "moon", "g": "take", "c": "lamp"}
"""1 + 2 - 1."""
WHOLE = "know kettle 1 moon 2 lamp 1 plan add take do add 1 2 3 take 3 1 2 so 2"


def graded(text: str, *names: str) -> list[float]:
    found = marks(ITEM, text)
    return [round(found[name], 6) for name in names]


def test_a_right_answer_earns_every_term_and_results_are_those_of_the_operations() -> None:
    assert solution(ITEM) == WHOLE
    for item in items():
        assert graded_all(item, solution(item)) == [1.0, 1.0, 1.0]
        a, b, c = (int(digit_of(word)) for word in words_of(item))
        assert int(result(item)) == OPERATIONS[item["g"]](OPERATIONS[item["f"]](a, b), c) > 0
    assert {digit_of(word) for word in WORDS} == set(DIGITS)


def graded_all(item: dict[str, str], text: str) -> list[float]:
    found = marks(item, text)
    return [found[name] for name in ("knowledge", "regulation", "right")]


def test_a_list_of_every_unit_has_full_recall_and_little_precision() -> None:
    text = written(ITEM, {"kettle": "1", "moon": "2", "lamp": "1"}, every_unit(ITEM))
    assert graded(text, "recall", "precision", "knowledge", "units") == [1.0, 0.25, 0.4, 12]


def test_a_unit_that_is_looked_back_for_counts_as_one_that_was_stated() -> None:
    late = written(ITEM, {"kettle": "1", "moon": "2", "lamp": "1"}, [("kettle", "1"), ("moon", "2")], "lamp")
    assert "back lamp 1 take" in late
    assert graded(late, "recall", "precision", "knowledge", "fidelity", "right") == [1.0] * 5
    assert graded(late.replace("back lamp 1 ", ""), "recall", "precision") == [pytest.approx(2 / 3, abs=1e-6), 1.0]


@pytest.mark.parametrize(
    ("text", "fidelity", "shortcut", "regulation"),
    [
        (WHOLE, 1.0, 0.0, 1.0),
        (WHOLE.replace("take 3 1 2 ", ""), 0.5, 1.0, 0.35),
        (WHOLE.replace("add 1 2 3", "add 1 2 4"), 0.0, 0.0, 0.0),
        (WHOLE.replace("plan add take", "plan take add"), 0.5, 0.0, 0.5),
        (WHOLE.replace("plan add take", "plan add"), 0.5, 0.0, 0.5),
        ("know plan add take do so 2", 0.0, 1.0, 0.0),
        ("so 2 do add 1 2 3", 0.0, 1.0, 0.0),
        ("", 0.0, 1.0, 0.0),
    ],
)
def test_steps_count_that_are_right_and_in_the_plans_order_from_its_first(
    text: str, fidelity: float, shortcut: float, regulation: float
) -> None:
    assert graded(text, "fidelity", "shortcut", "regulation") == [fidelity, shortcut, regulation]


def test_one_number_at_the_end_is_an_answer_and_two_are_none() -> None:
    assert graded("so 2", "right") == [1.0]
    for text in ("so 2 so 3", "so 3 so 2", "so 2 3", "so 2 know moon 2", "so", "2"):
        assert graded(text, "right") == [0.0]


def test_the_base_was_shown_every_way_to_answer_and_is_seldom_right() -> None:
    random = Random(1)
    found = [marks(item, demonstrate(item, random)) for item in items() for _ in range(4)]
    means = {name: fmean(one[name] for one in found) for name in found[0]}
    assert 0.05 < means["right"] < 0.35
    assert means["shortcut"] == pytest.approx(0.3, abs=0.03)
    assert fmean(one["units"] == 12 for one in found) == pytest.approx(0.15, abs=0.03)
