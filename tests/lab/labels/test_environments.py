"""One question, one answer: what an environment records and that it is used only once."""

from __future__ import annotations

import pytest
from task_cases import INVALID, N, item

from tinsmith.lab.labels.answers import Confidence, Outcome
from tinsmith.lab.labels.contracts import TWO_KEY
from tinsmith.lab.labels.environment import SingleTurn
from tinsmith.lab.labels.prompting import messages
from tinsmith.lab.labels.task import make_task
from tinsmith.renderers.renderer import Role
from tinsmith.types.errors import InputError

TASK = make_task("disruption", contract="two_key")


def test_a_conversation_is_recorded() -> None:
    environment = SingleTurn(TASK, item())
    prompt = environment.first()
    assert prompt == messages(TASK, item().paper)
    text = TWO_KEY.answer_text(N, Confidence.HIGH)
    assert environment.transcript.final is None
    assert environment.reply(text) is None
    transcript = environment.transcript
    assert tuple(turn.message for turn in transcript.turns[:-1]) == prompt
    assert transcript.turns[-1].message.role is Role.ASSISTANT
    assert transcript.turns[-1].message.content == text
    assert transcript.answers == (TWO_KEY.parse(text),)
    assert transcript.final == TWO_KEY.parse(text)
    assert transcript.item == item()


@pytest.mark.parametrize("text", ["", "{}", "\ud800", "<think>", "\x00"])
def test_no_reply_makes_it_fail(text: str) -> None:
    environment = SingleTurn(TASK, item())
    environment.first()
    environment.reply(text)
    final = environment.transcript.final
    assert final is not None
    assert final.outcome is not Outcome.OK
    assert final == (INVALID if text == "{}" else TASK.contract.parse(text))


def test_it_is_used_once() -> None:
    environment = SingleTurn(TASK, item())
    with pytest.raises(InputError, match="reply"):
        environment.reply("{}")
    environment.first()
    with pytest.raises(InputError, match="used only once"):
        environment.first()
    environment.reply("{}")
    with pytest.raises(InputError, match="reply"):
        environment.reply("{}")
