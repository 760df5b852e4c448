"""The rewards that look at one answer: the seeds' totals, to the last bit."""

import json
import math

import pytest
from task_cases import INVALID, THOUGHT, UNPARSED, C, D, N, said

from tinsmith.lab.labels.contracts import FOUR_KEY, NOVELTY_TWO_KEY, Answer
from tinsmith.lab.labels.rewards import RewardState, make_reward
from tinsmith.lab.labels.task import TASKS
from tinsmith.lab.user_task.step_reward import rounded_sum
from tinsmith.types.errors import CheckpointError, DataError

TASK = TASKS["disruption"]


def total(name: str, gold: str, answer: Answer) -> float:
    [terms] = make_reward(name, TASK).score([gold], [answer])
    return terms.total


@pytest.mark.parametrize(
    ("name", "right", "wrong", "invalid", "unparsed"),
    [("soft", 0.75, 0.0, -0.5, -1.0), ("strong", 1.05, -0.55, -0.75, -1.0)],
)
def test_the_seeds_totals(name: str, right: float, wrong: float, invalid: float, unparsed: float) -> None:
    for label in TASK.labels:
        other = next(one for one in TASK.labels if one != label)
        assert total(name, label, said(label)) == right
        assert total(name, other, said(label)) == wrong
    assert total(name, D, INVALID) == invalid
    assert total(name, D, UNPARSED) == unparsed
    assert total(name, D, FOUR_KEY.parse("")) == unparsed
    assert total(name, D, FOUR_KEY.parse("[1]")) == invalid
    # A thought before the object makes the text no JSON; the tag costs one more.
    assert total(name, D, THOUGHT) == unparsed - 1.0


def test_exp5_pays_three_times_for_the_first_class_alone() -> None:
    assert total("exp5", D, said(D)) == 3.05
    assert total("exp5", C, said(C)) == 1.05
    assert total("exp5", N, said(N)) == 1.05
    assert total("exp5", C, said(D)) == -0.55
    assert total("exp5", D, said(N)) == -0.55


def test_a_think_tag_within_a_valid_answer_costs_one_and_nothing_else() -> None:
    answer = FOUR_KEY.parse(
        json.dumps(
            {"disruption_label": D, "label_justification": "<think>", "evidence_signals": [], "confidence": "low"}
        )
    )
    [terms] = make_reward("strong", TASK).score([D], [answer])
    assert terms.values == {"parse": 0.0, "contract": 0.05, "task": 1.0, "think": -1.0}
    assert terms.total == 0.05


def test_terms_are_named_and_add_up() -> None:
    [terms] = make_reward("strong", TASK).score([C], [said(D)])
    assert tuple(terms.values) == ("parse", "contract", "task", "think")
    assert terms.values == {"parse": 0.0, "contract": 0.05, "task": -0.6, "think": 0.0}
    [terms] = make_reward("soft", TASK).score([C], [INVALID])
    assert tuple(terms.values.values()) == (0.0, -0.5, 0.0, 0.0)
    [terms] = make_reward("soft", TASK).score([C], [UNPARSED])
    assert tuple(terms.values.values()) == (-1.0, 0.0, 0.0, 0.0)
    assert math.copysign(1.0, rounded_sum(0.25, -0.25)) == 1.0


def test_class_weights_multiply_the_correct_task_term() -> None:
    reward = make_reward("strong", TASK, class_weights={N: 1.3})
    assert reward.per_label().tolist() == [[1.05, -0.55, -0.55], [-0.55, 1.05, -0.55], [-0.55, -0.55, 1.35]]
    # What is given replaces exp5's own weights.
    even = make_reward("exp5", TASK, class_weights={})
    assert even.per_label().tolist() == make_reward("strong", TASK).per_label().tolist()


def test_foreign_labels_are_refused() -> None:
    reward = make_reward("strong", TASK)
    novel = NOVELTY_TWO_KEY.parse('{"novelty_label": "novel", "confidence": "low"}')
    with pytest.raises(DataError, match="field: label = 'novel'"):
        reward.score([D], [novel])
    with pytest.raises(DataError, match="field: label = 'novel'"):
        reward.score(["novel"], [said(D)])
    with pytest.raises(DataError, match="gold label"):
        reward.score([D, C], [said(D)])


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"reward": "dual"},
        {"reward": "x", "labels": [], "batches": "many", "confusion": [], "duals": []},
        {"reward": "x", "labels": [], "batches": 0, "confusion": [0.5], "duals": []},
        {"reward": "x", "labels": [], "batches": 0, "confusion": [[math.nan]], "duals": []},
        {"reward": "x", "labels": [], "batches": 0, "confusion": [], "duals": [math.inf]},
        {"reward": "x", "labels": [], "batches": 0, "confusion": [], "duals": [], "more": 1},
    ],
)
def test_a_damaged_state_is_refused(value: object) -> None:
    with pytest.raises(CheckpointError, match="not the state of a reward"):
        RewardState.from_json(value)


def test_a_state_goes_back_to_its_own_reward_only() -> None:
    soft, strong = make_reward("soft", TASK), make_reward("strong", TASK)
    soft.restore(soft.state())
    with pytest.raises(CheckpointError, match="another reward"):
        strong.restore(soft.state())
    with pytest.raises(CheckpointError):
        make_reward("soft", TASKS["novelty"]).restore(soft.state())
