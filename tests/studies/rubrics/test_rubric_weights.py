"""Weights of rubrics: used as written, or refused."""

import itertools
import json
import random
from pathlib import Path

import pytest

from tinsmith.lab.judge.rules import RuleJudge
from tinsmith.lab.judge.tree import pass_rate, weighted_rate
from tinsmith.studies.rubrics.dataset import RubricTask, read_dataset, task_of
from tinsmith.studies.rubrics.rlvr import weight_lines
from tinsmith.types.errors import DataError, InputError


def task(*weights: object) -> RubricTask:
    rubrics = [{"criterion": f"c{i}"} | ({} if one is None else {"weight": one}) for i, one in enumerate(weights)]
    made = task_of({"prompt": "p", "rubrics": rubrics})
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("weights", "verdicts", "score"),
    [
        ((5, -8), (True, False), 1.0),
        ((5, -8), (True, True), 0.0),
        ((5, -8), (False, True), 0.0),
        ((5, -2, 1), (True, True, False), 0.5),
        ((5, -2, 1), (True, False, True), 1.0),
        ((3, 1), (True, False), 0.75),
        ((3, 0), (False, True), 0.0),
        ((3, None), (False, True), 0.25),
        (("0.5", 1.5), (True, False), 0.25),
        ((1.7e308, 1.7e308, -1.7e308), (True, True, True), 0.5),
        ((5e-324, 1), (False, True), 1.0),
    ],
)
def test_a_score_is_the_weights_that_hold_over_the_positive_ones(
    weights: tuple[object, ...], verdicts: tuple[bool, ...], score: float
) -> None:
    assert task(*weights).score(verdicts) == score


@pytest.mark.parametrize("weight", [None, 1, 0.1, 7, 1e300])
def test_equal_weights_score_the_pass_rate_bit_for_bit(weight: object) -> None:
    for size in range(1, 8):
        one = task(*[weight] * size)
        assert not one.is_weighted
        for verdicts in itertools.product([False, True], repeat=size):
            assert one.score(verdicts) == pass_rate(verdicts)


def test_no_order_of_rubrics_changes_a_score() -> None:
    draws = random.Random(5)
    weights = [draws.uniform(-1, 3) for _ in range(12)]
    verdicts = [draws.random() < 0.5 for _ in weights]
    pairs = list(zip(verdicts, weights, strict=True))
    scores: set[float] = set()
    for _ in range(20):
        draws.shuffle(pairs)
        scores.add(weighted_rate([held for held, _ in pairs], [weight for _, weight in pairs]))
    assert len(scores) == 1


@pytest.mark.parametrize("weights", [(0, 0), (-1,), (0, -3), ("nan", 1), (float("inf"), 1), (True, 1), ("5 points",)])
def test_weights_that_make_no_score_are_refused(weights: tuple[object, ...]) -> None:
    with pytest.raises(DataError, match="weight"):
        task(*weights)
    with pytest.raises(InputError):
        weighted_rate([True], [1.0, 2.0])


def test_a_tree_beside_unequal_weights_is_refused() -> None:
    tree = {"children": [{"criterion": "a"}, {"criterion": "b"}]}
    rubrics = [{"criterion": "a", "weight": 2}, {"criterion": "b", "weight": 1}]
    with pytest.raises(DataError, match="weights"):
        task_of({"prompt": "p", "rubrics": rubrics, "rubric_tree": tree})
    for one in rubrics:
        one["weight"] = 2
    made = task_of({"prompt": "p", "rubrics": rubrics, "rubric_tree": tree})
    assert made.score([True, False]) == 0.5


def test_weights_are_said_before_a_run_and_enter_rules_too(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    rubrics = [
        {"criterion": "rule: has at most 20 words", "weight": 5},
        {"criterion": "rule: contains word 'sorry'", "weight": -8},
    ]
    file.write_text("".join(json.dumps({"task_id": f"t{i}", "prompt": "p", "rubrics": rubrics}) + "\n" for i in (1, 2)))
    data = read_dataset(file)
    [line] = weight_lines(data)
    assert "2 tasks" in line
    assert "2 rubrics with a negative weight" in line
    judge = RuleJudge(data.tasks[0].criteria)
    assert [data.tasks[0].score(judge.held(text)) for text in ("I am sorry.", "Fine.")] == [0.0, 1.0]
    file.write_text(json.dumps({"prompt": "p", "rubrics": ["a", {"criterion": "b", "weight": 1}]}))
    assert weight_lines(read_dataset(file)) == []


def test_rules_judge_responses_with_a_penalty_that_lowers_the_score() -> None:
    rubrics = [
        {"criterion": "rule: has at most 20 words", "weight": 5},
        {"criterion": "rule: contains word 'sorry'", "weight": -8},
    ]
    made = task_of({"prompt": "p", "rubrics": rubrics})
    judge = RuleJudge(made.criteria)
    judged = [judge.held(response) for response in ("A bird.", "Sorry, a bird.", "word " * 21)]
    assert judged == [[True, False], [True, True], [False, False]]
    assert [made.score(held) for held in judged] == [1.0, 0.0, 0.0]
