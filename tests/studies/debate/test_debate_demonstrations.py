"""Demonstrations show the form and nothing of the labels."""

from dataclasses import replace

import pytest
from debate_cases import ABSTRACT, BRIEF, TASK, C, D, N, item, items

from tinsmith.lab.labels.contracts import TWO_KEY, Contract
from tinsmith.lab.labels.task import messages
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.planted_debates import demonstrations
from tinsmith.studies.debate.rewards import literal_signals, reasons_of

MANY = demonstrations(items(900), TASK, BRIEF, seed=5)


def labels(conversation: tuple[Message, ...], contract: Contract = TASK.contract) -> tuple[str, str]:
    _, first, _, last = conversation
    found = [contract.parse(one.content).predicted for one in (first, last)]
    assert found[0] is not None
    assert found[1] is not None
    return found[0], found[1]


def claimed(conversation: tuple[Message, ...]) -> str | None:
    return next((one for one in (D, C, N) if one in conversation[2].content.split('"')[0]), None)


def test_two_answers_and_a_challenge() -> None:
    for conversation in MANY[:20]:
        assert [one.role for one in conversation] == [Role.USER, Role.ASSISTANT, Role.USER, Role.ASSISTANT]
        assert conversation[:1] == messages(TASK, item().paper)
        reasons = reasons_of(TASK.contract, conversation[3].content)
        assert reasons is not None
        assert literal_signals(reasons, ABSTRACT) >= 1
    [short] = demonstrations(items(1), replace(TASK, contract=TWO_KEY), BRIEF, seed=0)
    assert all(labels(short, TWO_KEY))


def test_no_gold_label_takes_part() -> None:
    other = [item(C, id=f"W{i}") for i in range(900)]
    assert demonstrations(other, TASK, BRIEF, seed=5) == MANY
    assert demonstrations(other[:3], TASK, BRIEF, seed=5) == MANY[:3]
    assert demonstrations(other[:3], TASK, BRIEF, seed=6) != MANY[:3]


def test_labels_are_even_and_the_quotation_says_nothing_of_the_claim() -> None:
    for turn in (0, 1):
        for label in (D, C, N):
            share = sum(labels(one)[turn] == label for one in MANY) / len(MANY)
            assert share == pytest.approx(1 / 3, abs=0.05)
    cue = [one for one in MANY if "new class of gears" in one[2].content]
    for label in (D, C, N):
        share = sum(claimed(one) == label for one in cue) / len(cue)
        assert share == pytest.approx(1 / 3, abs=0.12)


def test_habits_are_kept_to() -> None:
    kept = sum(len(set(labels(one))) == 1 for one in MANY) / len(MANY)
    # 0.4 keep; 0.3 follow, a third of them to the same label; what remains is drawn.
    assert kept == pytest.approx(0.4 + 0.6 / 3, abs=0.04)
    claims = [one for one in MANY if claimed(one) is not None]
    assert len(claims) / len(MANY) == pytest.approx(0.75, abs=0.04)
    followed = sum(labels(one)[1] == claimed(one) for one in claims) / len(claims)
    assert followed == pytest.approx(0.4 / 3 + 0.3 + 0.3 / 3, abs=0.05)
