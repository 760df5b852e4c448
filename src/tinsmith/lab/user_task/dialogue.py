"""Conversations about items of a task, in text: what follows on a reply, what they earn, and a right one in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from tinsmith.lab.datums import Example
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.items import UserItem, named_item
from tinsmith.lab.user_task.scoring import REPLY, Earned, read_reply, score_group, score_step
from tinsmith.lab.user_task.step_reward import Asked, Failed, StepReward
from tinsmith.lab.user_task.task import Ask, Task
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import InputError, TaskError


@dataclass(slots=True, eq=False, kw_only=True)
class Dialogue:
    """One conversation about an item. What it remembers is replaced and never changed: a shallow copy is a fork."""

    task: Task
    item: UserItem
    seed: int = 0
    """Of its group."""
    group: object = field(default_factory=object)
    """The same for all that are compared with each other."""
    replies: tuple[str, ...] = ()
    """The model's."""
    read: tuple[Any, ...] = ()
    """The same, as `parse` reads them."""
    heard: tuple[str, ...] = ()
    """Texts of the environment between them."""
    failed: Failed | None = None
    is_over: bool = False

    def say(self, text: str) -> str | Ask | None:
        """Take a reply; return what the model is told, a question to the task's model (see `tell`), or None at the end.

        What a function of the task raises ends the conversation, and is kept in `failed`.
        """
        if self.is_over or len(self.heard) < len(self.replies):
            raise InputError("no reply is due in this conversation")
        self.replies = (*self.replies, text)
        talk, self.is_over = self.task.talk, True
        if talk is None or len(self.replies) == talk.most:
            return None
        self.read = (*self.read, read_reply(self.task, text))
        if isinstance(self.read[-1], Failed):
            self.failed = self.read[-1]
            return None
        said = attempt(talk.reply, self.item.item, list(self.read), self.seed)
        if said is None:
            return None
        if isinstance(said, Ask) and talk.model is not None:
            self.is_over = False
            return said
        return self.tell(said)

    def tell(self, said: object) -> str | None:
        """Enter what the model is told; None: that failed."""
        self.is_over = not isinstance(said, str)
        if isinstance(said, str):
            self.heard = (*self.heard, said)
            return said
        wrong = str(said) if isinstance(said, Raised) else f"it gave {type(said).__name__}, and no text or None"
        self.failed = Failed(REPLY, wrong)
        return None


def converse(task: Task, item: object, seed: int = 0) -> Dialogue:
    """Begin a conversation about an item, to be had by hand: `say` takes replies, and `earned` scores it at its end."""
    return Dialogue(task=task, item=named_item(task, item), seed=seed)


def earned(task: Task, played: Sequence[Dialogue]) -> list[Earned | Failed]:
    """Return what conversations of one step earn that have come to their end."""
    found: dict[int, Earned | Failed] = {place: one.failed for place, one in enumerate(played) if one.failed}
    asked: dict[int, Asked] = {}
    for group, places in enumerate(_by_group(played)):
        kept = [place for place in places if place not in found]
        if not isinstance(task.reward, StepReward):
            replies = [played[place].replies for place in kept]
            found |= zip(kept, score_group(task, played[places[0]].item.item, replies), strict=True)
            continue
        for place in kept:
            one = played[place]
            read = [read_reply(task, text) for text in one.replies]
            bad = next((each for each in read if isinstance(each, Failed)), None)
            if bad is not None:
                found[place] = bad
                continue
            asked[place] = Asked(
                item=one.item.item,
                replies=tuple(read),
                text=one.replies[-1],
                group=group,
                seed=one.seed,
                heard=one.heard,
            )
    if isinstance(task.reward, StepReward):
        order = sorted(asked)
        found |= zip(order, score_step(task, [asked[place] for place in order]), strict=True)
    return [found[place] for place in range(len(played))]


def _by_group(played: Sequence[Dialogue]) -> list[list[int]]:
    """Return the places of those that are compared with each other; an item may come twice in a step."""
    places: dict[int, list[int]] = {}
    for place, one in enumerate(played):
        places.setdefault(id(one.group), []).append(place)
    return list(places.values())


def right_example(task: Task, one: UserItem, renderer: Renderer) -> Example:
    """Return what supervised training reads about an item: replies are learned, and what the task says to each is read.

    Its tokens are those that sampling would have come by.
    """
    assert task.answer is not None, "a task that says no answer is refused before"
    first, *others = _replies(attempt(task.answer, one.item), one)
    said = (*one.messages, Message(role=Role.ASSISTANT, content=first))
    tokens, weights = renderer.build_supervised_example(said)
    learned = [weight != 0.0 for weight in weights]
    talk, before = Dialogue(task=task, item=one), first
    for reply in others:
        heard = Message(role=Role.USER, content=_heard(talk, before))
        tokens = renderer.extend((), tokens, (heard,))
        learned += [False] * (len(tokens) - len(learned))
        alone = (heard, Message(role=Role.ASSISTANT, content=reply))
        written = [
            token for token, weight in zip(*renderer.build_supervised_example(alone), strict=True) if weight != 0.0
        ]
        tokens = (*tokens, *written)
        learned += [True] * len(written)
        before = reply
    return Example(tokens=tokens, learned=tuple(learned))


def _replies(said: object, one: UserItem) -> Sequence[str]:
    if isinstance(said, Raised):
        raise TaskError(f"answer of the item {one.prompt_id}: {said}")
    replies = [said] if isinstance(said, str) else said
    if not isinstance(replies, list | tuple) or not replies:
        raise TaskError(f"answer of the item {one.prompt_id}: it is no text")
    texts = cast(Sequence[object], replies)
    if not all(isinstance(each, str) for each in texts):
        raise TaskError(f"answer of the item {one.prompt_id}: it is no text")
    return cast(Sequence[str], replies)


def _heard(talk: Dialogue, reply: str) -> str:
    said, failed, name = talk.say(reply), talk.failed, talk.item.prompt_id
    if failed is not None:
        raise TaskError(f"{failed.where} of the item {name}: {failed.what}")
    if not isinstance(said, str):
        raise TaskError(f"answer of the item {name}: the task has nothing to say to it")
    return said
