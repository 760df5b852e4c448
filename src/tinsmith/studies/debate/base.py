"""What the base of the adversarial pair reads: conversations in which nothing has to do with any label.

Some ask for words of the abstract, and some for words that the challenger quotes. A model that never had to look back
at a quotation learns to stand firm long before it finds anything there, and then has nothing left to learn from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.prompting import messages
from tinsmith.lab.labels.task import Task
from tinsmith.lab.nano_base import BaseRecipe, Conversation
from tinsmith.lab.papers.base import reading
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.debate.challenge_leaks import quoted_spans
from tinsmith.studies.debate.demonstrations import demonstrations
from tinsmith.studies.debate.script import Script
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class DebateBaseRecipe(BaseRecipe):
    """How a base is built from conversations of two."""

    vocab_size: int = 512
    steps: int = 1000
    batch_size: int = 24
    reading_every: int = 3
    """Of so many papers, one is asked for words of its abstract instead of a label, and one for words of a quotation
    instead of a second label; 0: none."""


def debate_conversations(
    recipe: DebateBaseRecipe, task: Task, script: Script, items: Sequence[Item]
) -> list[Conversation]:
    """Make one conversation a paper."""
    every = recipe.reading_every
    debates = demonstrations(items, task, script, seed=derive(recipe.seed, "demonstrations"))
    conversations: list[Conversation] = []
    for i, (item, debate) in enumerate(zip(items, debates, strict=True)):
        seed = derive(recipe.seed, "words", i)
        *heard, _ = debate
        quoted = quoted_spans(heard[-1].content)
        if every and i % every == 0:
            conversations.append(_read(messages(task, item.paper), item.paper.abstract, seed))
        elif every and i % every == 1 and quoted:
            conversations.append(_read(tuple(heard), quoted[0], seed))
        else:
            conversations.append(debate)
    return conversations


def _read(heard: Conversation, text: str, seed: int) -> Conversation:
    asked, answer = reading(heard, text, seed)
    return (*asked, Message(role=Role.ASSISTANT, content=answer))
