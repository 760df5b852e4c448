"""What the base of the adversarial pair reads: conversations in which nothing has to do with any label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.experiments.base_model import BaseRecipe, Conversation
from tinsmith.experiments.paper_base import reading
from tinsmith.renderers.renderer import Message, Role
from tinsmith.tasks.debate.demonstrations import demonstrations
from tinsmith.tasks.debate.script import Script
from tinsmith.tasks.paper import Item
from tinsmith.tasks.prompting import messages
from tinsmith.tasks.task import Task
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateBaseRecipe(BaseRecipe):
    """How a base is built from conversations of two."""

    vocab_size: int = 512
    steps: int = 1000
    batch_size: int = 24
    reading_every: int = 3
    """Every so many-th paper is asked for words of its abstract instead of a label; 0: none."""


def debate_conversations(
    recipe: DebateBaseRecipe, task: Task, script: Script, items: Sequence[Item]
) -> list[Conversation]:
    """Make one conversation a paper."""
    debates = demonstrations(items, task, script, seed=derive(recipe.seed, "demonstrations"))
    conversations: list[Conversation] = []
    for i, (item, debate) in enumerate(zip(items, debates, strict=True)):
        if recipe.reading_every and i % recipe.reading_every == 0:
            seed = derive(recipe.seed, "words", i)
            asked, answer = reading(messages(task, item.paper), item.paper.abstract, seed)
            conversations.append((*asked, Message(role=Role.ASSISTANT, content=answer)))
        else:
            conversations.append(debate)
    return conversations
