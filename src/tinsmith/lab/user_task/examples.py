"""A right conversation as supervised training reads it: the model's replies are learned, what is said between is read.

Its tokens are those that sampling would have come by: each reply by itself, and after it what the task says to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tinsmith.lab.datums import Example
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.scoring import Failed, read_reply
from tinsmith.lab.user_task.task import Task
from tinsmith.renderers.renderer import Message, Renderer, Role
from tinsmith.types.errors import TaskError


def right_example(task: Task, one: UserItem, renderer: Renderer) -> Example:
    """Return what supervised training reads about an item.

    Raises:
        TaskError: the task's `answer` or `reply` fails, gives no text, or ends before the answer does.
    """
    assert task.answer is not None, "a task that says no answer is refused before"
    first, *others = _replies(attempt(task.answer, one.item), one)
    said = (*one.messages, Message(role=Role.ASSISTANT, content=first))
    tokens, weights = renderer.build_supervised_example(said)
    learned = [weight != 0.0 for weight in weights]
    read = [_read(task, first, one)]
    for reply in others:
        heard = Message(role=Role.USER, content=_heard(task, one, read))
        tokens = renderer.extend((), tokens, (heard,))
        learned += [False] * (len(tokens) - len(learned))
        alone = (heard, Message(role=Role.ASSISTANT, content=reply))
        written = [
            token for token, weight in zip(*renderer.build_supervised_example(alone), strict=True) if weight != 0.0
        ]
        tokens = (*tokens, *written)
        learned += [True] * len(written)
        read.append(_read(task, reply, one))
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


def _read(task: Task, reply: str, one: UserItem) -> object:
    found = read_reply(task, reply)
    if isinstance(found, Failed):
        raise TaskError(f"{found.where} of the item {one.prompt_id}: {found.what}")
    return found


def _heard(task: Task, one: UserItem, read: Sequence[object]) -> str:
    said = None if task.reply is None else attempt(task.reply, one.item, list(read))
    if isinstance(said, Raised):
        raise TaskError(f"reply about the item {one.prompt_id}: {said}")
    if not isinstance(cast(object, said), str):
        raise TaskError(f"answer of the item {one.prompt_id}: the task has nothing to say to it")
    return cast(str, said)
