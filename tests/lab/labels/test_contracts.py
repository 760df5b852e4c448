"""Contracts: every way to break one has its outcome, and no text makes the parser fail."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from task_cases import C, D, N

from cpu_limit import guarded
from tinsmith.lab.labels.contracts import (
    CONTRACTS,
    FOUR_KEY,
    NOVELTY_TWO_KEY,
    TWO_KEY,
    Answer,
    Confidence,
    Outcome,
    Subject,
    contract_for,
    outer_object,
    without_think,
)
from tinsmith.types.errors import ConfigError, ContractError

GOOD = f'{{"disruption_label": "{N}", "confidence": "high"}}'
FOUR = {"disruption_label": N, "label_justification": "narrow", "evidence_signals": ["one valley"], "confidence": "low"}


def test_a_good_answer() -> None:
    assert TWO_KEY.parse(GOOD) == Answer(
        outcome=Outcome.OK, parse_ok=True, labels=(N,), confidence=Confidence.HIGH, has_think=False, lenient_labels=(N,)
    )
    assert TWO_KEY.parse(f" \n{GOOD}\t\r\n").outcome is Outcome.OK
    assert FOUR_KEY.parse(json.dumps(FOUR)).outcome is Outcome.OK
    assert FOUR_KEY.parse(json.dumps(FOUR, indent=2)).label == N
    shuffled = dict(reversed(FOUR.items()))
    assert FOUR_KEY.parse(json.dumps(shuffled)).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("", Outcome.EMPTY),
        (" \n\u00a0", Outcome.EMPTY),
        ("neutral", Outcome.NOT_JSON),
        (GOOD + ".", Outcome.NOT_JSON),
        ("Sure: " + GOOD, Outcome.NOT_JSON),
        (GOOD + GOOD, Outcome.NOT_JSON),
        (GOOD[:-1], Outcome.NOT_JSON),
        (GOOD.replace('"high"', "NaN"), Outcome.NOT_JSON),
        (GOOD.replace("high", "\\ud800"), Outcome.NOT_JSON),
        ("[" + GOOD + "]", Outcome.NOT_OBJECT),
        ("3", Outcome.NOT_OBJECT),
        ("null", Outcome.NOT_OBJECT),
        (json.dumps(GOOD), Outcome.NOT_OBJECT),
        ("{}", Outcome.BAD_KEYS),
        (GOOD.replace("confidence", "Confidence"), Outcome.BAD_KEYS),
        (GOOD[:-1] + ', "more": 1}', Outcome.BAD_KEYS),
        (GOOD[:-1] + ', "confidence": "high"}', Outcome.BAD_KEYS),
        ('{"a": 1, "a": 2}', Outcome.BAD_KEYS),
        (json.dumps({"answer": {"disruption_label": N, "confidence": "low"}}), Outcome.BAD_KEYS),
        (GOOD.replace(N, N.upper()), Outcome.BAD_LABEL),
        (GOOD.replace(N, f" {N}"), Outcome.BAD_LABEL),
        (GOOD.replace(N, "novel"), Outcome.BAD_LABEL),
        (GOOD.replace(f'"{N}"', "null"), Outcome.BAD_LABEL),
        (GOOD.replace(f'"{N}"', f'["{N}"]'), Outcome.BAD_LABEL),
        (GOOD.replace(f'"{N}"', f'{{"{N}": 1}}'), Outcome.BAD_LABEL),
        (GOOD.replace("high", "High"), Outcome.BAD_CONFIDENCE),
        (GOOD.replace('"high"', "0.9"), Outcome.BAD_CONFIDENCE),
        (GOOD.replace('"high"', "9" * 10_000), Outcome.BAD_CONFIDENCE),
        (GOOD.replace('"high"', "true"), Outcome.BAD_CONFIDENCE),
        (f"```json\n{GOOD}\n```", Outcome.FENCED),
        (f"Here: ```{GOOD}```", Outcome.FENCED),
        (f"<think>so</think>{GOOD}", Outcome.THINK),
        (f"<think>{GOOD}", Outcome.THINK),
        (f"{GOOD}</THINK>", Outcome.THINK),
        (f"```<think>{GOOD}```", Outcome.THINK),
    ],
)
def test_every_fault_has_its_outcome(text: str, outcome: Outcome) -> None:
    answer = TWO_KEY.parse(text)
    assert answer.outcome is outcome
    assert answer.label is None
    assert answer.predicted is None
    assert not answer.payload_ok


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        ({"label_justification": None}, Outcome.BAD_VALUE),
        ({"label_justification": ["a"]}, Outcome.BAD_VALUE),
        ({"evidence_signals": "one valley"}, Outcome.BAD_VALUE),
        ({"evidence_signals": ["a", 1]}, Outcome.BAD_VALUE),
        ({"evidence_signals": {}}, Outcome.BAD_VALUE),
        ({"evidence_signals": []}, Outcome.OK),
        ({"label_justification": ""}, Outcome.OK),
        ({"label_justification": "uses ``` in text"}, Outcome.OK),
        # The first fault in the order of the keys' importance is named.
        ({"evidence_signals": 1, "confidence": "sure"}, Outcome.BAD_CONFIDENCE),
        ({"evidence_signals": 1, "disruption_label": "x"}, Outcome.BAD_LABEL),
    ],
)
def test_the_reasons_of_four_keys(changed: dict[str, object], outcome: Outcome) -> None:
    assert FOUR_KEY.parse(json.dumps(FOUR | changed)).outcome is outcome


def test_a_think_tag_within_a_valid_answer_is_a_fault_but_the_payload_stands() -> None:
    answer = FOUR_KEY.parse(json.dumps(FOUR | {"label_justification": "<think>no</think>"}))
    assert answer.outcome is Outcome.THINK
    assert (answer.payload_ok, answer.label, answer.predicted) == (True, N, None)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (GOOD, N),
        (f"<think>{GOOD.replace(N, D)}</think>{GOOD}", N),
        (f"I first thought {{so}}</think>\n{GOOD}", N),
        (f"{GOOD}<think>was that right?", N),
        (f"```json\n{GOOD}\n```", N),
        (f"The answer is {GOOD}, I think.", N),
        (f"<think>a</think>x<think>b</think>{GOOD}", N),
        (GOOD + GOOD.replace(N, C), None),
        (GOOD.replace(N, "Neutral"), None),
        ("neutral", None),
        (f"<think>{GOOD}", None),
        ("} {", None),
        ("{", None),
    ],
)
def test_the_lenient_reading(text: str, label: str | None) -> None:
    assert TWO_KEY.parse(text).lenient == label


def test_thoughts_are_cut_out_as_they_open_and_close() -> None:
    assert without_think("a<think>b</think>c") == "ac"
    assert without_think("a</think>b</think>c") == "c"
    assert without_think("a<think>b<think>c</think>d") == "ad"
    assert without_think("a<think>b</think>c</think>d") == "d"
    assert without_think("<thinking>a</thinking>") == "<thinking>a</thinking>"
    assert outer_object("a } b { c") is None


@given(
    st.text()
    | st.text(st.characters(categories=("Cs", "Nd", "Po")))
    | st.lists(st.sampled_from(["{", "}", '"', "<think>", "</think>", "```", GOOD, "\ud800", "\\", " "])).map("".join)
)
def test_no_text_makes_the_parser_fail(text: str) -> None:
    for contract in (FOUR_KEY, TWO_KEY):
        answer = contract.parse(text)
        assert answer == contract.parse(text)
        assert (answer.label is None) == (answer.confidence is None)
        assert answer.label is None or answer.label == answer.lenient
        assert answer.payload_ok <= answer.parse_ok
        assert (answer.outcome is Outcome.OK) == (answer.payload_ok and not answer.has_think)
        assert not (answer.outcome is Outcome.FENCED and answer.parse_ok)


@pytest.mark.parametrize("unit", ["<think", "<think>", "</think>", "<", "```", "{", "}", '\\"', '"', "[", "{}", "\n"])
def test_long_answers_take_linear_time(unit: str) -> None:
    text = unit * (1_600_000 // len(unit))
    with guarded():
        assert TWO_KEY.parse(text).label is None


def test_a_deep_call_stack_reads_the_same() -> None:
    text = "[" * 900 + "]" * 900

    def at_depth(depth: int) -> Answer:
        return at_depth(depth - 1) if depth else TWO_KEY.parse(text)

    assert at_depth(500) == TWO_KEY.parse(text)


def test_writing_refuses_what_would_not_be_read() -> None:
    with pytest.raises(ContractError, match="bad_label"):
        TWO_KEY.answer_text("Neutral", Confidence.LOW)
    with pytest.raises(ContractError):
        FOUR_KEY.answer_text(N, Confidence.LOW, justification="\ud800")


def test_names_of_contracts() -> None:
    assert contract_for(Subject.NOVELTY, "two_key") is NOVELTY_TWO_KEY
    assert CONTRACTS["disruption/two_key"] is TWO_KEY
    assert replace(FOUR_KEY, form=TWO_KEY.form) == TWO_KEY
    with pytest.raises(ConfigError, match="four_key, two_key"):
        contract_for(Subject.DISRUPTION, "three_key")
