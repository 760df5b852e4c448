"""A conversation of two: what is said and earned in it, forks, and challenges that come late or leak."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from debate_cases import TASK, C, D, N, answer, debate_task, item, only, scripted, talk

from tinsmith.lab.user_task.dialogue import converse, earned
from tinsmith.lab.user_task.task import Model
from tinsmith.studies.debate.challenge import Arm, load_script
from tinsmith.studies.debate.task import debate
from tinsmith.types.errors import ConfigError, InputError

GOOD = answer(D, reason="Later work leaves out older work.", signals=("tin and copper",))


def test_a_conversation_is_what_was_said() -> None:
    one = talk(item(D), only(Arm.TRUTHFUL))
    assert "Gears of tin" in one.item.prompt
    received = one.say(answer(C))
    assert received.endswith('gears for"\nReturn JSON only.')
    assert one.say(GOOD) is None
    assert (one.replies, one.observations) == ((answer(C), GOOD), (received,))


def test_it_earns_by_its_stance_which_is_drawn_again() -> None:
    one = talk(item(D), only(Arm.MISLEADING), seed=5)
    one.say(answer(D))
    one.say(GOOD)
    (found,) = earned(one.task, [one])
    record = found.scored.record
    challenge: Any = record["challenge"]
    assert challenge.pop("label") in (C, N)
    assert challenge == {"arm": "misleading", "evidence": True, "grounded": False}
    assert record["correct_by_turn"] == [True, True]
    assert found.terms == {"correctness": 1.0, "reasoning": pytest.approx(0.2), "adaptation": 0.2}
    assert found.total == 1.4
    assert found.metrics == {"right_first": 1.0, "right_last": 1.0, "caved": 0.0}


def test_replies_are_taken_in_order_and_two_alone() -> None:
    one = talk()
    one.say(GOOD)
    one.say("\ud800")
    with pytest.raises(InputError, match="reply"):
        one.say(GOOD)
    (found,) = earned(one.task, [one])
    assert found.total == -1.0


def test_forks_share_the_past_and_not_the_future() -> None:
    one = talk(item(D))
    one.say(answer(C))
    other, third = copy.copy(one), copy.copy(one)
    one.say(answer(D))
    other.say(answer(C))
    first, second = earned(one.task, [one, other])
    assert (first.metrics["right_last"], second.metrics["right_last"]) == (1.0, 0.0)
    assert one.observations == other.observations == third.observations
    assert third.replies == (answer(C),)


def test_a_model_is_asked_and_what_it_may_not_say_is_not_heard() -> None:
    challenger = replace(scripted(only(Arm.NULL)), script=load_script("plain"), is_model=True)
    task = debate_task(challenger, model=Model())
    for words, text in ((" Hm? ", True), ("It is disruptive.", False)):
        one = converse(task, item(), 0)
        requests = one.say(answer(C))
        assert answer(C) in requests.prompt
        with pytest.raises(InputError, match="reply"):
            one.say(GOOD)  # B was not heard yet
        if text:
            messages = one.tell(requests.then(words))
            assert messages.startswith("Hm?\nAnswer again")
        else:
            with pytest.raises(Exception, match="field: paper W1 = 'disruptive'"):
                requests.then(words)


def test_a_task_of_the_planted_world_has_its_keys_and_its_control() -> None:
    task = debate(opponent="scripted", forks=2, reward="adversarial/forked")
    assert task.turns.forks == 2
    assert set(task.controls) == {"test_no_evidence"}
    assert not debate(opponent="nobody").controls
    assert TASK.labels == (D, C, N)


@pytest.mark.parametrize(
    ("keys", "allowed"),
    [
        ({"reward": "gated"}, "adversarial/seed, adversarial/gated, adversarial/forked"),
        ({"script": "long"}, "brief, plain"),
        ({"cues": "none"}, "words, planted, learned"),
        ({"papers": "none"}, "all, arguable"),
        ({"wrong": "none"}, "any, other"),
        ({"forks": 2}, "forks"),
        ({"truthful": 0.5}, "sum to 1"),
        ({"opponent": "base", "script": "brief"}, "script=plain"),
    ],
)
def test_what_is_refused_says_what_is_allowed(keys: dict[str, object], allowed: str) -> None:
    with pytest.raises(ConfigError, match=allowed):
        debate(**keys)  # type: ignore[arg-type]
