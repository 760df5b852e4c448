"""Requirements on every reward, contract and prompt of the registries."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import jsonschema
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinsmith.lab.labels
from tinsmith.lab.labels.contracts import CONTRACTS, Answer, Confidence, Contract, Form, Outcome
from tinsmith.lab.labels.prompt_files import JOINT_PROMPTS, PROMPTS
from tinsmith.lab.labels.rewards import REWARDS, RewardState, make_reward
from tinsmith.lab.labels.task import TASKS, Item, Paper, Task, check_prompt, check_text, make_task, messages, shown
from tinsmith.studies import debate
from tinsmith.studies.debate.challenge import SCRIPTS
from tinsmith.types.errors import ConfigError

REWARD_NAMES = list(REWARDS)
TASK_NAMES = list(TASKS)
ALONE = [name for name, one in CONTRACTS.items() if len(one.subjects) == 1]
PROMPT_TASKS = [
    make_task(name, prompt=prompt, contract=form, with_metadata=told)
    for name in TASKS
    for prompt in PROMPTS
    for form in (Form.FOUR_KEY, Form.TWO_KEY)
    for told in (True, False)
]
PAPER = Paper(
    id="W7",
    title="A title",
    abstract="Words in between.",
    year=1987,
    citations=4321,
    field="Botany",
    concepts=("root",),
)


def idf(task: Task) -> str:
    lines = "told" if task.with_metadata else "bare"
    return f"{task.name}-{task.prompt}-{task.contract.form}-{lines}"


def answers_of(contract: Contract) -> list[Answer]:
    """A valid answer a label, then one answer for each way to fail."""
    valid = [contract.answer_text(label, Confidence.LOW) for label in contract.labels]
    one = valid[0]
    texts = [
        *valid,
        "",
        one + "!",
        "[]",
        "{}",
        one.replace(f'"{contract.labels[0]}"', "null"),
        one.replace("low", "x"),
        f"```\n{one}\n```",
        f"<think>x</think>{one}",
    ]
    return [contract.parse(text) for text in texts]


# --- rewards


@pytest.mark.parametrize("task_name", TASK_NAMES)
@pytest.mark.parametrize("name", REWARD_NAMES)
def test_per_label_agrees_with_score_in_any_state(name: str, task_name: str) -> None:
    task = TASKS[task_name]
    reward = make_reward(name, task)
    answers = answers_of(task.contract)
    draw = np.random.default_rng(0)
    for _ in range(6):
        matrix = reward.per_label()
        assert matrix.shape == (3, 3)
        assert np.isfinite(matrix).all()
        assert (reward.per_label(reward.state().confusion, reward.state().duals) == matrix).all()
        for y, gold in enumerate(task.labels):
            terms = reward.score([gold] * 3, answers[:3])
            assert [one.total for one in terms] == matrix[y].tolist()  # ==, no tolerance
        picks = draw.integers(0, len(answers), 200)
        golds = [task.labels[i] for i in draw.integers(0, 3, 200)]
        reward.update(golds, [answers[i] for i in picks])


@pytest.mark.parametrize("name", REWARD_NAMES)
def test_every_outcome_has_a_reward_and_only_the_label_changes_the_task_term(name: str) -> None:
    task = TASKS["disruption"]
    reward = make_reward(name, task)
    table = REWARDS[name]
    answers = answers_of(task.contract)
    assert {answer.outcome for answer in answers} == set(Outcome) - {Outcome.BAD_VALUE}
    for gold in task.labels:
        for answer, terms in zip(answers, reward.score([gold] * len(answers), answers), strict=True):
            assert terms.parse == (0.0 if answer.parse_ok else table.unparsed)
            assert terms.think == (table.think if answer.has_think else 0.0)
            if not answer.payload_ok:
                assert terms.task == 0.0
                assert terms.contract == (table.invalid if answer.parse_ok else 0.0)
            else:
                assert terms.contract == table.valid
            assert terms.total == pytest.approx(terms.parse + terms.contract + terms.task + terms.think)
            thought = replace(answer, has_think=True)
            [worse] = reward.score([gold], [thought])
            assert worse.values == {**terms.values, "think": -1.0}


@pytest.mark.parametrize("name", REWARD_NAMES)
def test_a_right_answer_beats_the_same_answer_where_it_is_wrong(name: str) -> None:
    for task in TASKS.values():
        matrix = make_reward(name, task).per_label()
        for k in range(3):
            assert all(matrix[k, k] > matrix[y, k] for y in range(3) if y != k)
        # At the start a valid wrong answer is no worse than one outside the contract.
        assert matrix.min() >= REWARDS[name].invalid


@pytest.mark.parametrize("name", REWARD_NAMES)
def test_each_answer_is_scored_for_itself(name: str) -> None:
    task = TASKS["novelty"]
    reward = make_reward(name, task)
    answers = answers_of(task.contract)
    golds = [task.labels[i % 3] for i in range(len(answers))]
    together = reward.score(golds, answers)
    alone = [reward.score([g], [a])[0] for g, a in zip(golds, answers, strict=True)]
    assert together == alone
    assert reward.score(golds[::-1], answers[::-1]) == together[::-1]
    assert reward.score([], []) == []


@pytest.mark.parametrize("name", REWARD_NAMES)
def test_state_and_trace_are_plain_and_stable(name: str) -> None:
    task = TASKS["disruption"]
    reward = make_reward(name, task)
    assert (reward.name, reward.labels) == (name, task.labels)
    reward.update([task.labels[0]] * 3, answers_of(task.contract)[:3])
    stored = json.loads(json.dumps(msgspec.to_builtins(reward.state())))
    assert RewardState.from_json(stored) == reward.state()
    trace = reward.trace()
    assert all(isinstance(value, float) for value in trace.values())
    assert list(trace) == list(reward.trace())
    other = make_reward(name, task)
    other.restore(reward.state())
    assert dict(other.trace()) == dict(trace)


@pytest.mark.parametrize("name", REWARD_NAMES)
def test_settings_are_listed_and_all_of_them_are_taken(name: str) -> None:
    task = TASKS["disruption"]
    kind = REWARDS[name]
    with pytest.raises(ConfigError) as caught:
        make_reward(name, task, no_such_setting=1)
    assert all(setting in str(caught.value) for setting in kind.settings)
    assert kind.about
    shares = {label: 1 / 3 for label in task.labels}
    for setting in kind.settings:
        by_label = setting in ("class_weights", "prior", "first_shares")
        make_reward(name, task, **{setting: shares if by_label else 1.0})


# --- contracts


def plain_values(contract: Contract) -> st.SearchStrategy[object]:
    """Objects near the contract: its own keys, sometimes others, values right and wrong."""
    words = [*contract.labels, *(c.value for c in Confidence), "other", ""]
    value = st.one_of(
        st.sampled_from(words),
        st.none(),
        st.integers(),
        st.lists(st.sampled_from(words) | st.integers(), max_size=2),
        st.dictionaries(st.sampled_from(words), st.none(), max_size=1),
    )
    exact = {
        key: st.sampled_from(words[:-2]) | value if "signals" not in key else st.just(["a"]) | value
        for key in contract.keys
    }
    loose = st.dictionaries(st.sampled_from([*contract.keys, "more"]), value, max_size=5)
    return st.fixed_dictionaries(exact) | loose | value


def schema(contract: Contract) -> dict[str, object]:
    """The JSON Schema of an answer: all that `parse` demands but that no key may be there twice."""
    text = {"type": "string"}
    values = {
        **{one.label_key: {**text, "enum": list(one.labels)} for one in contract.subjects},
        "label_justification": text,
        "evidence_signals": {"type": "array", "items": text},
        "confidence": {**text, "enum": [one.value for one in Confidence]},
    }
    shown = {"properties": {key: values[key] for key in contract.keys}, "required": list(contract.keys)}
    return {"type": "object", **shown, "additionalProperties": False}


@pytest.mark.whole
@pytest.mark.parametrize("name", ALONE)
def test_the_schema_and_the_parser_agree(name: str) -> None:
    contract = CONTRACTS[name]
    validator = jsonschema.Draft202012Validator(schema(contract))

    @given(plain_values(contract))
    @settings(max_examples=200)
    def agree(value: object) -> None:
        answer = contract.parse(json.dumps(value))
        assert answer.parse_ok
        assert validator.is_valid(value) == answer.payload_ok == (answer.outcome is Outcome.OK)

    agree()


@pytest.mark.parametrize("name", ALONE)
def test_what_a_contract_writes_it_reads(name: str) -> None:
    contract = CONTRACTS[name]
    assert contract.name == name
    for label in contract.labels:
        for confidence in Confidence:
            text = contract.answer_text(label, confidence, justification='"q"\n\u00e9', signals=("a", "{b}"))
            answer = contract.parse(text)
            assert (answer.outcome, answer.label, answer.confidence) == (Outcome.OK, label, confidence)
            assert tuple(json.loads(text)) == contract.keys
            assert "\n" not in text


@pytest.mark.parametrize("name", ALONE)
def test_every_fault_is_reached_and_none_has_a_label(name: str) -> None:
    answers = answers_of(CONTRACTS[name])
    assert [answer.outcome for answer in answers] == [
        *[Outcome.OK] * 3,
        Outcome.EMPTY,
        Outcome.NOT_JSON,
        Outcome.NOT_OBJECT,
        Outcome.BAD_KEYS,
        Outcome.BAD_LABEL,
        Outcome.BAD_CONFIDENCE,
        Outcome.FENCED,
        Outcome.THINK,
    ]
    assert all(answer.label is None for answer in answers[3:])


# --- prompts


def test_the_files_are_the_registered_prompts_and_no_others() -> None:
    folders = [Path(of.__file__ or "").parent / "prompts" for of in (tinsmith.lab.labels, debate)]
    found, scripts = (
        sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()) for folder in folders
    )
    expected = [f"{name}/{prompt}.md" for name in TASKS for prompt in PROMPTS]
    expected += [f"joint/{prompt}.md" for prompt in JOINT_PROMPTS]
    expected += [f"answers/{form}.md" for form in Form]
    assert found == sorted(expected)
    assert scripts == sorted(f"{script}.md" for script in SCRIPTS)


@pytest.mark.parametrize("task", PROMPT_TASKS, ids=idf)
def test_a_prompt_shows_the_paper_and_nothing_that_leaks(task: Task) -> None:
    item = Item(paper=PAPER, golds=(task.labels[0],), hidden=(0.1234567, 0.7654321))
    prompt = messages(task, PAPER)
    check_prompt(task, item, prompt)
    for message in prompt:
        check_text(item, message.content)
    *_, user = prompt
    values: Mapping[str, str] = shown(PAPER)
    printed = ["title", "abstract", "field"] + ["year", "citations"] * task.with_metadata
    for key in ("title", "abstract", "field", "year", "citations"):
        assert (values[key] in user.content) == (key in printed)
    assert user.content.endswith("Return JSON only.")
    # The record says nothing of labels or scores; the instruction, if there is one, names them.
    lowered = user.content.lower()
    assert not [label for label in task.labels if label in lowered]
    if len(prompt) == 2:
        system = prompt[0].content
        assert all(label in system for label in task.labels)
        assert all(f'"{key}"' in system for key in task.contract.keys)
        assert not re.search(r"\{\w+\}", system)  # no place is left open
        other = CONTRACTS[f"{task.name}/{Form.FOUR_KEY}"].keys
        unused = set(other) - set(task.contract.keys)
        assert not [key for key in unused if key in system]


@pytest.mark.parametrize("task", PROMPT_TASKS, ids=idf)
def test_a_prompt_is_a_function_of_the_paper_and_its_words_have_a_hash(task: Task) -> None:
    assert messages(task, PAPER) == messages(replace(task), replace(PAPER))
    assert len(task.prompt_sha256) == 64
    assert len({one.prompt_sha256 for one in PROMPT_TASKS}) == len(PROMPT_TASKS)
    # Without metadata neither year nor citations can be read back.
    changed = replace(PAPER, year=1, citations=2)
    assert (messages(task, changed) == messages(task, PAPER)) == (not task.with_metadata)
