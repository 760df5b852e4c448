"""A loop at test: an answer, the model's own verdict, and another answer where it is refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from tinsmith.lab.user_task.dialogue import Earned, converse, earned, revised, revising
from tinsmith.lab.user_task.task import Task, of_conversation, of_group
from tinsmith.types.errors import ConfigError


def right(item: Any, text: str) -> float:
    return float(text == item["says"])


def task(**changed: Any) -> Task:
    parts: dict[str, Any] = {"items": [{"id": "a", "says": "4"}], "prompt": "2+2", "reward": right}
    return Task(**{**parts, "metrics": {"length": lambda _, text: len(text)}, **changed})


def asked(one: Task, replies: Sequence[str]) -> tuple[list[object], Earned]:
    """Return what the model is told after each reply, and what the conversation earns."""
    talk = converse(one, one.items[0])  # type: ignore[index]
    received = [talk.say(text) for text in replies]
    (found,) = earned(one, [talk])
    assert isinstance(found, Earned)
    return received, found


LOOP = revising("Right?", "Again.", lambda said: said == "yes", rounds=2)


@pytest.mark.parametrize(
    ("replies", "heard", "total", "answers"),
    [
        (["4", "yes"], ["Right?", None], 1.0, 1),
        (["3", "no", "4", "yes"], ["Right?", "Again.", "Right?", None], 1.0, 2),
        (["4", "no", "3", "no", "55"], ["Right?", "Again.", "Right?", "Again.", None], 0.0, 3),
    ],
)
def test_the_last_answer_is_what_is_rewarded_and_measured(
    replies: list[str], heard: list[object], total: float, answers: int
) -> None:
    words, found = asked(revised(task(), LOOP), replies)
    assert words == heard
    assert found.total == total
    assert found.metrics == {"length": len(replies[::2][-1]), "answers": answers}


def test_a_reward_of_a_conversation_sees_the_last_answer_alone() -> None:
    one = revised(task(reward=of_conversation(lambda _, replies: len(replies))), LOOP)
    assert asked(one, ["3", "no", "4", "yes"])[1].total == 1.0


@pytest.mark.parametrize("changed", [{"turns": LOOP}, {"reward": of_group(lambda _, texts: [0.0] * len(texts))}])
def test_what_cannot_be_asked_in_a_loop_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        revised(task(**changed), LOOP)
