"""Both labels in one answer: what is read, what is asked, what must not leak, and what it earns."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_cases import paper, row

from tinsmith.lab.labels.contracts import FIVE_KEY, FOUR_KEY, THREE_KEY, TWO_KEY, Answer, Confidence, Outcome, Subject
from tinsmith.lab.labels.rewards import make_label_reward, paid_alone
from tinsmith.lab.labels.task import Item, check_prompt, items_of, make_joint_task, messages
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import CheckpointError, ConfigError, ContractError, DataError

TASK = make_joint_task(prompt="brief")
GOLDS = ("neutral", "novel")
ITEM = Item(paper=paper(), golds=GOLDS, hidden=(0.0213471, 0.51237))
RIGHT = THREE_KEY.parse(THREE_KEY.answer_text(GOLDS, Confidence.LOW))
WITHOUT_LABELS = THREE_KEY.parse("{}")
PROSE = THREE_KEY.parse("I cannot say.")


def said(*labels: str) -> Answer:
    return THREE_KEY.parse(THREE_KEY.answer_text(labels, Confidence.LOW))


# --- the contract


def test_both_labels_are_read_in_any_order() -> None:
    text = '{"confidence": "high", "novelty_label": "balanced", "disruption_label": "disruptive"}'
    answer = THREE_KEY.parse(text)
    assert answer.predicted_labels == answer.labels == answer.lenient_labels == ("disruptive", "balanced")
    assert (answer.outcome, answer.confidence) == (Outcome.OK, Confidence.HIGH)
    assert [answer.alone(place).predicted for place in (0, 1)] == ["disruptive", "balanced"]


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({"novelty_label": "new"}, Outcome.BAD_LABEL),
        ({"disruption_label": "novel"}, Outcome.BAD_LABEL),
        ({"novelty_label": 3}, Outcome.BAD_LABEL),
        ({"confidence": "sure"}, Outcome.BAD_CONFIDENCE),
        ({"label_justification": "why"}, Outcome.BAD_KEYS),
        ({"novelty_label": None}, Outcome.BAD_LABEL),
    ],
)
def test_one_fault_voids_both_labels(changed: dict[str, Any], outcome: Outcome) -> None:
    good = {"disruption_label": "disruptive", "novelty_label": "novel", "confidence": "low"}
    answer = THREE_KEY.parse(json.dumps({**good, **changed}))
    assert answer.outcome is outcome
    assert answer.labels is answer.predicted_labels is answer.lenient_labels is None
    assert all(answer.alone(place).label is None for place in (0, 1))


@given(st.text(max_size=60) | st.sampled_from(["{}", "[1]", '{"disruption_label": "neutral"}']))
def test_faults_are_named_as_by_a_single_labels_contract(text: str) -> None:
    joint, single = THREE_KEY.parse(text), TWO_KEY.parse(text)
    assert joint.alone(0) == single


def test_five_keys_want_reasons() -> None:
    text = FIVE_KEY.answer_text(GOLDS, Confidence.LOW, justification="so", signals=["a"])
    assert FIVE_KEY.parse(text).predicted_labels == GOLDS
    broken = {**json.loads(text), "evidence_signals": [1]}
    assert FIVE_KEY.parse(json.dumps(broken)).outcome is Outcome.BAD_VALUE
    assert THREE_KEY.parse(text).outcome is Outcome.BAD_KEYS
    assert FOUR_KEY.parse(text).outcome is Outcome.BAD_KEYS


def test_a_wrong_label_is_not_written() -> None:
    with pytest.raises(ContractError, match="novelty_label"):
        THREE_KEY.answer_text(("neutral", "neutral"), Confidence.LOW)


# --- the prompt


def test_the_plain_prompt_says_every_label_and_key_of_its_contract() -> None:
    for contract in ("three_key", "five_key"):
        task = make_joint_task(contract=contract)
        system, user = messages(task, paper())
        assert all(f'"{key}"' in system.content for key in task.contract.keys)
        assert all(f'"{label}"' in system.content for subject in Subject for label in subject.labels)
        assert "17" in user.content


def test_identities_differ_and_unknown_names_are_refused() -> None:
    tasks = [
        make_joint_task(prompt=prompt, contract=contract, with_metadata=lines)
        for prompt in ("plain", "brief")
        for contract in ("three_key", "five_key")
        for lines in (True, False)
    ]
    assert len({task.prompt_sha256 for task in tasks}) == len(tasks)
    with pytest.raises(ConfigError, match="plain, brief"):
        make_joint_task(prompt="checklist")
    with pytest.raises(ConfigError, match="five_key, three_key"):
        make_joint_task(contract="two_key")


@pytest.mark.parametrize(
    "text", [f"disruption_label: {GOLDS[0]}", f'novelty_label="{GOLDS[1]}"', "0.0213471", "0.51237", "cd_index: 0.0213"]
)
def test_neither_label_nor_score_may_stand_in_the_papers_text(text: str) -> None:
    leaky = Item(paper=paper(abstract=f"We. {text}"), golds=GOLDS, hidden=ITEM.hidden)
    with pytest.raises(DataError, match="field: paper W1 = "):
        check_prompt(TASK, leaky, messages(TASK, leaky.paper))


@pytest.mark.parametrize("gold", GOLDS)
def test_a_gold_label_beside_the_prompts_words_is_a_leak(gold: str) -> None:
    (user,) = messages(TASK, ITEM.paper)
    check_prompt(TASK, ITEM, (user,))
    printed = Message(role=Role.USER, content=f"{user.content} {gold}")
    with pytest.raises(DataError, match=gold):
        check_prompt(TASK, ITEM, (printed,))


def test_items_have_both_labels_or_say_which_is_missing() -> None:
    (item,) = items_of([row()], TASK)
    assert item.golds == GOLDS
    assert item.hidden == (0.25, 0.5)
    for missing in ("disruption_label", "novelty_label"):
        with pytest.raises(DataError, match=f"(?s){missing}.*--task joint"):
            items_of([row(**{missing: None})], TASK)


# --- the reward


@pytest.mark.parametrize(
    ("answer", "total"),
    [
        (RIGHT, 1.05),
        (said("neutral", "balanced"), 0.25),
        (said("disruptive", "novel"), 0.25),
        (said("disruptive", "balanced"), -0.55),
        (WITHOUT_LABELS, -0.75),
        (PROSE, -1.0),
        (THREE_KEY.parse("<think>" + THREE_KEY.answer_text(GOLDS, Confidence.LOW)), -2.0),
    ],
)
def test_a_total_is_the_form_and_the_mean_of_the_labels_terms(answer: Answer, total: float) -> None:
    (terms,) = make_label_reward("strong", TASK).score([ITEM], [answer])
    assert terms.total == total
    assert tuple(terms.values) == ("parse", "contract", "disruption", "novelty", "think")


def test_each_label_is_paid_by_its_own_reward_and_memory() -> None:
    reward = make_label_reward("macro_f1", TASK)
    answers = [RIGHT, said("neutral", "balanced"), WITHOUT_LABELS] * 40
    before = reward.score([ITEM] * 120, answers)
    reward.update([ITEM] * 120, answers)
    first, second = reward.rewards
    assert first.state().confusion != second.state().confusion
    alone = first.per_label()[2, 2], second.per_label()[0, 0]
    (after,) = reward.score([ITEM], [RIGHT])
    assert tuple(paid_alone(after, one) for one in Subject) == alone
    assert after.total == pytest.approx(sum(alone) / 2)
    assert after != before[0]
    trace = reward.trace()
    assert trace["disruption/ema_macro_f1"] != trace["novelty/ema_macro_f1"]


def test_a_state_goes_through_json_and_on_with_the_same_bits() -> None:
    first, second = (make_label_reward("dual", TASK, window=8.0) for _ in range(2))
    batch = [ITEM] * 3, [RIGHT, said("disruptive", "conventional"), WITHOUT_LABELS]
    first.update(*batch)
    second.restore(json.loads(json.dumps(first.state())))
    first.update(*batch)
    second.update(*batch)
    assert first.state() == second.state()
    assert first.score(*batch) == second.score(*batch)
    with pytest.raises(CheckpointError, match="another reward"):
        make_label_reward("macro_f1", TASK).restore(first.state())
    with pytest.raises(CheckpointError, match="joint"):
        first.restore({"disruption": {}})
