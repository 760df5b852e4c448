"""Conversations about items of a task, in text: responses to replies, rewards, and right examples in tokens.

A loop at test time is turns too: an answer, its verification by the model itself, and a revision where it is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, cast

from tinsmith.lab.grouping import Example
from tinsmith.lab.user_task.calls import Raised, attempt, raised
from tinsmith.lab.user_task.items import UserItem, named_item
from tinsmith.lab.user_task.step_reward import LARGEST_REWARD, Conversation, Failed, Scored, StepReward
from tinsmith.lab.user_task.task import (
    Ask,
    Child,
    Metric,
    Number,
    OfConversation,
    OfGroup,
    OfTree,
    Reward,
    Spawn,
    Task,
    Turns,
    of_conversation,
)
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import ConfigError, InputError, TaskError, TinsmithError

# Places where a user's function can fail.
PARSE: Final = "parse"
REWARD: Final = "reward"
METRIC: Final = "metric"
REPLY: Final = "reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """Reward of one conversation, by terms and metrics."""

    terms: Mapping[str, float]
    metrics: Mapping[str, float]  # Without those that do not apply to it.
    readable: bool  # True if `parse` could read the last reply; True where nothing is parsed.
    observations: tuple[str, ...] = ()  # Texts of the environment between the model's replies.
    scored: Scored | None = None  # As a reward of whole steps gave it; None: the task has none.

    @property
    def total(self) -> float:
        """The reward: the sum of the terms; of a task's own functions rounded to 12 decimals."""
        return round(math.fsum(self.terms.values()), 12) if self.scored is None else self.scored.total


@dataclass(slots=True, eq=False, kw_only=True)
class Dialogue:
    """Conversation about an item. Its state is replaced, never mutated, so that a shallow copy is a fork."""

    task: Task
    item: UserItem
    seed: int = 0  # Of its group.
    group: object = field(default_factory=object)  # The same for all that are compared with each other.
    replies: tuple[str, ...] = ()  # The model's.
    read: tuple[Any, ...] = ()  # The same, as `parse` reads them.
    observations: tuple[str, ...] = ()  # Texts of the environment between them.
    failed: Failed | None = None
    is_over: bool = False
    depth: int = 0  # Conversations above it in its tree.
    children: tuple[Dialogue, ...] = ()  # Those that it spawned.

    @property
    def answer(self) -> object:
        """Last reply as parsed by the task; None if there is none, or it failed."""
        read = _read(self.task, self.replies[-1]) if self.replies and not self.failed else None
        return None if isinstance(read, Failed) else read

    def say(self, text: str) -> str | Ask | Spawn | None:
        """Take a reply; return the task's response, a request to be answered first (see `tell`), or None at the end.

        What a function of the task raises ends the conversation, and is kept in `failed`.
        """
        if self.is_over or len(self.observations) < len(self.replies):
            raise InputError("no reply is due in this conversation")
        self.replies = (*self.replies, text)
        talk, self.is_over = self.task.talk, True
        if talk is None or len(self.replies) == talk.most:
            return None
        self.read = (*self.read, _read(self.task, text))
        if isinstance(self.read[-1], Failed):
            self.failed = self.read[-1]
            return None
        response = attempt(talk.reply, self.item.item, list(self.read), self.seed)
        if isinstance(response, Ask) and talk.model is not None:
            self.is_over = False
            return response
        if isinstance(response, Spawn) and talk.deepest:
            self.is_over = self.depth == talk.deepest
            return None if self.is_over else response
        return None if response is None else self.tell(response)

    def say_shown(self, text: str) -> str | Ask | None:
        """Take a reply as `say` does; right answers replace the answers of rollouts that it spawns."""
        response = self.say(text)
        if not isinstance(response, Spawn):
            return response
        right = self.task.answer
        if right is None:
            return self.tell(raised(InputError("a shown Spawn is answered by the task's answer=, and it has none")))
        answers = [attempt(right, item) for item in response.items]
        wrong = next((one for one in answers if isinstance(one, Raised)), None)
        last = [one if isinstance(one, str) else cast("Sequence[str]", one)[-1] for one in answers if one is not wrong]
        return self.tell(wrong or attempt(response.then, [_read(self.task, one) for one in last]))

    def tell(self, text: object) -> str | None:
        """Record the task's response; None for a failure."""
        self.is_over = not isinstance(text, str)
        if isinstance(text, str):
            self.observations = (*self.observations, text)
            return text
        wrong = str(text) if isinstance(text, Raised) else f"it gave {type(text).__name__}, and no text or None"
        self.failed = Failed(REPLY, wrong)
        return None


def converse(task: Task, item: object, seed: int = 0) -> Dialogue:
    """Start a conversation about an item by hand: `say` takes replies, and `earned` scores it at its end."""
    return Dialogue(task=task, item=named_item(task, item), seed=seed)


def earned(task: Task, played: Sequence[Dialogue]) -> list[Earned | Failed]:
    """Score a step's finished conversations, including spawned ones."""
    results: dict[int, Earned | Failed] = {place: one.failed for place, one in enumerate(played) if one.failed}
    to_score: dict[int, Conversation] = {}
    trees: dict[int, Child] = {}  # by the conversation that was spawned
    groups: dict[object, list[int]] = {}  # by what they are compared in: an item may come twice in a step
    for place, talk in enumerate(played):
        groups.setdefault(talk.group, []).append(place)
    lowest_first = sorted(groups.values(), key=lambda places: -played[places[0]].depth)
    for group, places in enumerate(lowest_first):
        remaining = [place for place in places if place not in results]
        if not isinstance(task.reward, StepReward):
            texts = [played[place].replies for place in remaining]
            below = [[trees[id(c)] for c in played[place].children if id(c) in trees] for place in remaining]
            results |= zip(remaining, score_group(task, played[places[0]].item.item, texts, below), strict=True)
            trees |= {id(played[p]): child for p in remaining if (child := _child(task, played[p], results[p], trees))}
            continue
        for place in remaining:
            talk, read = played[place], _read_all(task, played[place].replies)
            if isinstance(read, Failed):
                results[place] = read
            else:
                own: dict[str, Any] = {"text": talk.replies[-1], "seed": talk.seed, "observations": talk.observations}
                to_score[place] = Conversation(item=talk.item.item, replies=tuple(read), group=group, **own)
    if isinstance(task.reward, StepReward):
        order = sorted(to_score)
        results |= zip(order, score_step(task, [to_score[place] for place in order]), strict=True)
    return [
        result if isinstance(result := results[place], Failed) else replace(result, observations=talk.observations)
        for place, talk in enumerate(played)
    ]


def _child(task: Task, one: Dialogue, scored: Earned | Failed, trees: Mapping[int, Child]) -> Child | None:
    """Return a spawned conversation in the form that its parent's rewards read; None if it is none, or failed."""
    if not one.depth or isinstance(scored, Failed):
        return None
    own = math.fsum(scored.terms[name] for name, reward in task.rewards.items() if not isinstance(reward, OfTree))
    below = tuple(trees[id(child)] for child in one.children if id(child) in trees)
    replies = tuple(_read(task, text) for text in one.replies)
    return Child(item=one.item.item, replies=replies, earned=own, children=below)


def demonstrated(task: Task, item: UserItem) -> tuple[str, ...]:
    """Return the replies that `answer` demonstrates about an item."""
    assert task.answer is not None, "a task that says no answer is refused before"
    where, answer = f"answer of the item {item.prompt_id}", attempt(task.answer, item.item)
    if isinstance(answer, Raised):
        raise TaskError(f"{where}: {answer}")
    replies = cast("Sequence[object]", [answer] if isinstance(answer, str) else answer)
    if not isinstance(replies, list | tuple) or not replies or not all(isinstance(each, str) for each in replies):
        raise TaskError(f"{where}: it is no text")
    return tuple(cast("Sequence[str]", replies))


def right_example(task: Task, item: UserItem, renderer: Renderer) -> Example:
    """Return the supervised example of an item: replies are learned, the task's responses are only read.

    Its tokens are those that sampling would have come by.
    """
    first, *others = demonstrated(task, item)
    tokens, weights = renderer.build_supervised_example((*item.messages, Message(role=Role.ASSISTANT, content=first)))
    learned = [weight != 0.0 for weight in weights]
    talk, before = Dialogue(task=task, item=item), first
    for reply in others:
        response = talk.say_shown(before)
        if talk.failed is not None:
            raise TaskError(f"{talk.failed.where} of the item {item.prompt_id}: {talk.failed.what}")
        if not isinstance(response, str):
            raise TaskError(f"answer of the item {item.prompt_id}: the task has no reply to it")
        message = Message(role=Role.USER, content=response)
        tokens = renderer.extend((), tokens, (message,))
        learned += [False] * (len(tokens) - len(learned))
        alone = renderer.build_supervised_example((message, Message(role=Role.ASSISTANT, content=reply)))
        written = [token for token, weight in zip(*alone, strict=True) if weight != 0.0]
        tokens = (*tokens, *written)
        learned += [True] * len(written)
        before = reply
    return Example(tokens=tokens, learned=tuple(learned))


def score_step(task: Task, answers: Sequence[Conversation]) -> list[Earned | Failed]:
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
    return [_of_step(task, reward, answer, one) for answer, one in zip(answers, found, strict=True)]


def _of_step(task: Task, reward: StepReward, conversation: Conversation, scored: object) -> Earned | Failed:
    if isinstance(scored, Failed):
        return scored
    if not isinstance(scored, Scored):
        return Failed(REWARD, f"it gave {type(scored).__name__}, and neither Scored nor Failed")
    if set(scored.terms) != set(reward.terms):
        return Failed(REWARD, f"it gave the terms {', '.join(scored.terms)}, and says {', '.join(reward.terms)}")
    result: Earned | Failed = Earned(terms={}, metrics={}, readable=conversation.replies[-1] is not None, scored=scored)
    for name in reward.terms:
        result = _entered(result, REWARD, name, _number(scored.terms[name]))
    for name in reward.metrics:
        result = _entered(result, METRIC, name, _number(scored.metrics.get(name), optional=True))
    for name, metric in task.metrics.items():
        (value,) = _valued(metric, conversation.item, [list(conversation.replies)], [()], optional=True)
        result = _entered(result, METRIC, name, value)
    return result


def _entered(result: Earned | Failed, where: str, name: str, value: float | str | None) -> Earned | Failed:
    """Add a value to a conversation's reward; text is the reason why there is none."""
    if isinstance(result, Failed) or value is None:
        return result
    if isinstance(value, str):
        return Failed(where, f"{name}: {value}")
    if where == REWARD:
        return replace(result, terms={**result.terms, name: value})
    return replace(result, metrics={**result.metrics, name: value})


def score_group(
    task: Task, item: object, conversations: Sequence[Sequence[str]], below: Sequence[Sequence[Child]] = ()
) -> list[Earned | Failed]:
    """Score the conversations about one item, each as the model's replies; a failure affects its own alone.

    `below` has what each of them spawned; empty: none did.
    """
    read = [_read_all(task, texts) for texts in conversations]
    results = [
        one if isinstance(one, Failed) else Earned(terms={}, metrics={}, readable=one[-1] is not None) for one in read
    ]
    for where, rewards in ((REWARD, task.rewards), (METRIC, task.metrics)):
        for name, reward in rewards.items():
            left = [place for place, one in enumerate(results) if isinstance(one, Earned)]
            replies = [cast("list[Any]", read[place]) for place in left]
            spawned = [below[place] if below else () for place in left]
            values = _valued(reward, item, replies, spawned, optional=where == METRIC)
            for place, value in zip(left, values, strict=True):
                results[place] = _entered(results[place], where, name, value)
    return results


def _read_all(task: Task, texts: Sequence[str]) -> list[Any] | Failed:
    read = [_read(task, text) for text in texts]
    return next((one for one in read if isinstance(one, Failed)), read)


def _read(task: Task, text: str) -> object:
    found = text if task.parse is None else attempt(task.parse, text)
    return Failed(PARSE, str(found)) if isinstance(found, Raised) else found


def _valued(
    reward: Reward | Metric,
    item: object,
    replies: Sequence[list[Any]],
    below: Sequence[Sequence[Child]],
    *,
    optional: bool,
) -> list[float | str | None]:
    """Return each conversation's value, or a reason why it is unknown; None for a metric that does not apply."""
    if isinstance(reward, OfTree):
        returned = [attempt(reward.function, item, list(each), of) for each, of in zip(replies, below, strict=True)]
        return [_number(one, optional=optional) for one in returned]
    if isinstance(reward, OfConversation):
        return [_number(attempt(reward.function, item, list(each)), optional=optional) for each in replies]
    if not isinstance(reward, OfGroup):
        return [_number(attempt(reward, item, each[-1]), optional=optional) for each in replies]
    if not replies:
        return []
    count = len(replies)
    returned = attempt(lambda: list(islice(reward.function(item, [each[-1] for each in replies]), count + 1)))
    if isinstance(returned, Raised):
        return [str(returned)] * count
    if len(returned) != count:
        given = f"{len(returned)}" if len(returned) < count else f"more than {count}"
        return [f"it returned {given} numbers for {count} answers"] * count
    return [_number(value, optional=optional) for value in returned]


def _number(value: object, *, optional: bool = False) -> float | str | None:
    """Return a reward as a number, or a reason as text. None stays None if `optional`."""
    if isinstance(value, Raised):
        return str(value)
    if value is None and optional:
        return None
    kind = type(value).__name__
    number = math.nan if isinstance(value, str | bytes | bytearray) else attempt(float, value)
    if isinstance(number, Raised) and isinstance(number.error, OverflowError):
        return f"it returned {kind} of more than {LARGEST_REWARD:g}, the largest value that is allowed"
    if isinstance(number, Raised) or isinstance(value, str | bytes | bytearray):
        return f"it returned {kind}, not a number"
    if not math.isfinite(number):
        return f"it returned {number}, not a finite number"
    if abs(number) > LARGEST_REWARD:
        return f"it returned {number:g}, which is more than {LARGEST_REWARD:g}, the largest value that is allowed"
    return number


def revising(check: str, again: str, accepts: Callable[[Any], bool], rounds: int = 2) -> Turns:
    """Return turns in which the model verifies each answer, and answers again after rejecting one.

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
    """Return a task with the turns of `revising`, as a control of its test: the last answer is rewarded.

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
