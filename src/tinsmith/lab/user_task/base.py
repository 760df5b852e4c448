"""What the nano base of a user's own task reads: its training items, answered as the task's `demonstrate` shows.

So it knows how answers look before any of them is rewarded. Held-out items are not among what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, cast

from tinsmith.lab.base_recipe import BaseRecipe, Conversation
from tinsmith.lab.nano_base import building_minutes, cached_base
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.dialogue import Dialogue
from tinsmith.lab.user_task.items import UserItem
from tinsmith.lab.user_task.task import Task
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

NANO_CHARACTERS: Final = 2.5
"""A token, with so small a vocabulary."""
BASE_MEGABYTES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBaseRecipe(BaseRecipe):
    """How a base is built from the demonstrations of a task."""

    vocab_size: int = 512
    max_positions: int = 1024
    steps: int = 1_000
    learning_rate: float = 3e-3
    count: int = 8_000
    """Demonstrations; the training items are gone through again and again."""


def recipe_of(task: Task) -> TaskBaseRecipe:
    """Return how a task's base is built: the laboratory's recipe, for as many steps as the task says."""
    recipe = TaskBaseRecipe()
    return replace(recipe, steps=task.base_steps) if task.base_steps else recipe


def task_base(task: Task, items: Sequence[UserItem], recipe: TaskBaseRecipe, say: Callable[[str], None]) -> Path:
    """Return the folder of the nano base for a task; built where it is not cached."""
    _require_demonstrations(task)
    return cached_base(recipe, task_conversations(task, items, recipe), say)


def base_minutes(task: Task, items: Sequence[UserItem]) -> float:
    """Return about how long building it takes on two cores, from the first of what it would read."""
    _require_demonstrations(task)
    recipe = recipe_of(task)
    first = task_conversations(task, items, replace(recipe, count=recipe.batch_size))
    return building_minutes(recipe, first, NANO_CHARACTERS)


def _require_demonstrations(task: Task) -> None:
    if task.demonstrate is None:
        raise ConfigError(
            "this task shows no answers (demonstrate=) that a small base could be built from, and no model is named",
            field="model_name",
            fix="at=small (SmolLM2; `tinsmith base fetch smollm2` once), model_name=... with base_url=... or "
            "learning_rate=..., or demonstrate=... in the task",
        )


def task_conversations(task: Task, items: Sequence[UserItem], recipe: TaskBaseRecipe) -> list[Conversation]:
    """Return what the base reads: conversations about training items."""
    return [
        _conversation(task, items[place % len(items)], derive(recipe.seed, "demonstration", place))
        for place in range(recipe.count)
    ]


def _conversation(task: Task, one: UserItem, seed: int) -> Conversation:
    """Return one conversation; between its replies stands what the task would say to them."""
    assert task.demonstrate is not None
    shown = attempt(task.demonstrate, one.item, Random(seed))
    replies = (shown,) if isinstance(shown, str) else shown
    if isinstance(replies, Raised):
        raise _failed(str(replies), one)
    if not replies or not all(isinstance(cast(object, each), str) for each in replies):
        raise _failed(f"it gave {replies!r}, and no text or list of texts", one)
    said = [*one.messages, Message(role=Role.ASSISTANT, content=replies[0])]
    talk = Dialogue(task=task, item=one, seed=seed)
    for reply, after in pairwise(replies):
        heard = talk.say(reply)
        if talk.failed is not None:
            raise _failed(talk.failed.what, one)
        if not isinstance(heard, str):
            break  # the task has nothing to say to it
        said += [Message(role=Role.USER, content=heard), Message(role=Role.ASSISTANT, content=after)]
    return tuple(said)


def _failed(what: str, one: UserItem) -> ConfigError:
    return ConfigError(f"a demonstration failed: {what}", field="demonstrate", value=one.item)
