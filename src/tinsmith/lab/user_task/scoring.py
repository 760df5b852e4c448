"""What the conversations of one group earn by a user's rewards: named terms and metrics, or why there are none."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from tinsmith.lab.terms import LARGEST_REWARD
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.step_reward import Asked, Failed, Scored, StepReward
from tinsmith.lab.user_task.task import Metric, OfConversation, OfGroup, Reward, Task
from tinsmith.types.errors import TinsmithError

PARSE: Final = "parse"
REWARD: Final = "reward"
METRIC: Final = "metric"
REPLY: Final = "reply"
"""Where a user's function fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """What one conversation earned."""

    terms: Mapping[str, float]
    metrics: Mapping[str, float]
    """Without those that do not apply to it."""
    readable: bool
    """True if `parse` could read the last reply; True where nothing is parsed."""
    scored: Scored | None = None
    """As a reward of whole steps gave it; None: the task has none."""

    @property
    def total(self) -> float:
        """The reward: the sum of the terms; of a task's own functions rounded to 12 decimals."""
        return round(math.fsum(self.terms.values()), 12) if self.scored is None else self.scored.total


def score_step(task: Task, answers: Sequence[Asked]) -> list[Earned | Failed]:
    """Score all answers of a step by a task's reward of whole steps, and by its metrics."""
    reward = task.reward
    assert isinstance(reward, StepReward)
    found = attempt(lambda: list(reward(answers)))
    if isinstance(found, Raised):
        if isinstance(found.error, TinsmithError):
            raise found.error
        return [Failed(REWARD, str(found))] * len(answers)
    if len(found) != len(answers):
        return [Failed(REWARD, f"it gave {len(found)} rewards for {len(answers)} answers")] * len(answers)
    return [_of_step(task, reward, asked, one) for asked, one in zip(answers, found, strict=True)]


def _of_step(task: Task, reward: StepReward, asked: Asked, scored: object) -> Earned | Failed:
    if isinstance(scored, Failed):
        return scored
    if not isinstance(scored, Scored):
        return Failed(REWARD, f"it gave {type(scored).__name__}, and neither Scored nor Failed")
    if set(scored.terms) != set(reward.terms):
        return Failed(REWARD, f"it gave the terms {', '.join(scored.terms)}, and says {', '.join(reward.terms)}")
    values = {name: _number(scored.terms[name]) for name in reward.terms}
    metrics = {name: _number_or_none(scored.metrics.get(name)) for name in reward.metrics}
    for name, metric in task.metrics.items():
        metrics |= {name: _valued(metric, asked.item, [list(asked.replies)], optional=True)[0]}
    bad = [Failed(REWARD, f"{name}: {one}") for name, one in values.items() if isinstance(one, str)]
    bad += [Failed(METRIC, f"{name}: {one}") for name, one in metrics.items() if isinstance(one, str)]
    if bad:
        return bad[0]
    return Earned(
        terms={name: one for name, one in values.items() if isinstance(one, float)},
        metrics={name: one for name, one in metrics.items() if isinstance(one, float)},
        readable=asked.replies[-1] is not None,
        scored=scored,
    )


def score_group(task: Task, item: object, conversations: Sequence[Sequence[str]]) -> list[Earned | Failed]:
    """Score the conversations about one item, each the model's replies; one that fails leaves the others alone."""
    replies: dict[int, list[Any]] = {}
    failed: dict[int, Failed] = {}
    for place, texts in enumerate(conversations):
        read = [read_reply(task, text) for text in texts]
        bad = next((one for one in read if isinstance(one, Failed)), None)
        if bad is None:
            replies[place] = read
        else:
            failed[place] = bad
    values: dict[int, dict[str, float]] = {place: {} for place in replies}
    for where, rewards in ((REWARD, task.rewards), (METRIC, task.metrics)):
        for name, reward in rewards.items():
            left = [place for place in replies if place not in failed]
            found = _valued(reward, item, [replies[place] for place in left], optional=where == METRIC)
            for place, value in zip(left, found, strict=True):
                if isinstance(value, float):
                    values[place][f"{where}/{name}"] = value
                elif value is not None:
                    failed[place] = Failed(where, f"{name}: {value}")
    return [
        failed[place]
        if place in failed
        else Earned(
            terms={name: values[place][f"{REWARD}/{name}"] for name in task.rewards},
            metrics={
                name: value for name in task.metrics if (value := values[place].get(f"{METRIC}/{name}")) is not None
            },
            readable=replies[place][-1] is not None,
        )
        for place in range(len(conversations))
    ]


def read_reply(task: Task, text: str) -> object:
    """Return a reply as the task's `parse` reads it, the text itself where nothing is parsed, or why that failed."""
    if task.parse is None:
        return text
    found = attempt(task.parse, text)
    return Failed(PARSE, str(found)) if isinstance(found, Raised) else found


def _valued(
    reward: Reward | Metric, item: object, replies: Sequence[list[Any]], *, optional: bool
) -> list[float | str | None]:
    """Return what each conversation is worth, or why that is not known; None, of a metric that does not apply."""
    number = _number_or_none if optional else _number
    if isinstance(reward, OfGroup):
        return _of_group(reward.function, item, replies, number)
    if isinstance(reward, OfConversation):
        return [number(attempt(reward.function, item, list(each))) for each in replies]
    return [number(attempt(reward, item, each[-1])) for each in replies]


def _of_group(
    function: Callable[[Any, Sequence[Any]], Sequence[float]],
    item: object,
    replies: Sequence[list[Any]],
    number: Callable[[object], float | str | None],
) -> list[float | str | None]:
    if not replies:
        return []
    count = len(replies)
    found = attempt(lambda: list(islice(function(item, [each[-1] for each in replies]), count + 1)))
    if isinstance(found, Raised):
        return [str(found)] * count
    if len(found) != count:
        given = f"{len(found)}" if len(found) < count else f"more than {count}"
        return [f"it gave {given} numbers for {count} answers"] * count
    return [number(value) for value in found]


def _number_or_none(value: object) -> float | str | None:
    return None if value is None else _number(value)


def _number(value: object) -> float | str:
    """Return a reward as a number; text says why it is none."""
    if isinstance(value, Raised):
        return str(value)
    kind = type(value).__name__
    number = math.nan if isinstance(value, str | bytes | bytearray) else attempt(float, value)
    if isinstance(number, Raised) and isinstance(number.error, OverflowError):
        return f"it gave {kind} of more than {LARGEST_REWARD:g}, the largest value that is allowed"
    if isinstance(number, Raised) or isinstance(value, str | bytes | bytearray):
        return f"it gave {kind}, and not a number"
    if not math.isfinite(number):
        return f"it gave {number}, and not a finite number"
    if abs(number) > LARGEST_REWARD:
        return f"it gave {number:g}, of more than {LARGEST_REWARD:g}, the largest value that is allowed"
    return number
