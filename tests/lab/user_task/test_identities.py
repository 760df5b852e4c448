"""Identities of tasks that are handed over in Python: what changes a reward, changes them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tinsmith.lab.user_task.functions import task_value
from tinsmith.lab.user_task.learned_reward import LearnedReward
from tinsmith.lab.user_task.step_reward import Conversation, Scored, StepReward
from tinsmith.lab.user_task.task import Task, Turns, of_conversation


def longer(_: object, answer: Any) -> float:
    return float(len(answer))


def nothing(_: object, __: Any) -> float:
    return 0.0


def features(_: object, __: str) -> list[float]:
    return [1.0]


def more(_: object, __: Sequence[str], ___: int) -> str:
    return "more"


class Times(StepReward):
    """As many times the length of an answer."""

    def __init__(self, times: float) -> None:
        self.times = times

    def __call__(self, answers: Sequence[Conversation]) -> list[Scored]:
        return [Scored(terms={"reward": self.times * len(one.text)}) for one in answers]


def task(reward: Any = longer, **parts: Any) -> Task:
    return Task(items=["a", "b"], prompt="{item}", reward=reward, tested=["c"], **parts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (task({"long": longer}), task({"long": of_conversation(longer)})),
        (task(LearnedReward(label=longer, features=features)), task(LearnedReward(label=nothing, features=features))),
        (
            task(LearnedReward(label=longer, features=features)),
            task(LearnedReward(label=longer, features=features, every=1)),
        ),
        (task(Times(1.0)), task(Times(-1.0))),
        (task(turns=Turns(reply=more, most=2)), task(turns=Turns(reply=more, most=2, agents=2))),
        (task(turns=Turns(reply=more, most=2)), task(turns=Turns(reply=more, most=2, deepest=1))),
        (task(), task(controls={"test_other": replace(task(nothing), tested=())})),
    ],
)
def test_what_changes_a_reward_changes_the_identity(one: Task, other: Task) -> None:
    assert task_value(one).sha256 != task_value(other).sha256


def test_what_a_reward_learned_in_a_run_does_not() -> None:
    reward = LearnedReward(label=longer, features=features)
    before = task_value(task(reward)).sha256
    reward.steps = 3
    assert task_value(task(reward)).sha256 == before
