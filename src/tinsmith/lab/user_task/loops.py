"""Loops at test time as turns: an answer, its verification by the model itself, and a revision where it is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from tinsmith.lab.user_task.step_reward import StepReward
from tinsmith.lab.user_task.task import Metric, Number, OfConversation, OfGroup, Reward, Task, Turns, of_conversation
from tinsmith.types.errors import ConfigError


def revising(check: str, again: str, accepts: Callable[[Any], bool], rounds: int = 2) -> Turns:
    """Return turns in which the model verifies each of its answers, and answers again where it does not accept it.

    The last answer that there is room for is not verified.

    Args:
        check: asks for a verdict on the answer before.
        again: asks for another answer.
        accepts: reads a verdict, as the task's `parse` returns it; True ends the conversation.
        rounds: verdicts at most.
    """

    def reply(item: object, replies: Sequence[Any], seed: int) -> str | None:
        del item, seed
        if len(replies) % 2:
            return check
        return None if accepts(replies[-1]) else again

    return Turns(reply=reply, most=2 * rounds + 1)


def revised(task: Task, turns: Turns) -> Task:
    """Return a task asked in turns of `revising`, as a control of its test: the last answer is what it earns.

    Its metric `answers` counts the answers; what sampling took stands under `tokens/answer` of the split.

    Raises:
        ConfigError: the task has turns of its own, or a reward of several answers together.
    """
    if task.talk is not None or isinstance(task.reward, StepReward):
        what = "turns of its own" if task.talk is not None else "a reward of a whole step"
        raise ConfigError("this task cannot be used in a loop", field="turns", value=what, allowed="one reply")
    reward = {name: _of_last(name, one) for name, one in task.rewards.items()}
    metrics = {name: _of_last(name, one) for name, one in task.metrics.items()}
    metrics["answers"] = of_conversation(lambda _, replies: (len(replies) + 1) // 2)
    bare = replace(task, tested=(), controls={}, baselines={})
    return replace(bare, turns=turns, reward=reward, metrics=metrics)


def _of_last(name: str, reward: Reward | Metric) -> OfConversation:
    if isinstance(reward, OfGroup):
        raise ConfigError("this reward sees several answers together", field=name, allowed="(item, answer)")
    if isinstance(reward, OfConversation):
        return OfConversation(lambda item, replies: reward.function(item, replies[::2][-1:]))
    found = cast("Callable[[Any, Any], Number]", reward)
    return OfConversation(lambda item, replies: found(item, replies[::2][-1]))  # every other reply is a verdict
