"""What the papers' base reads: abstracts, and after them answers in the contract that know nothing of the labels.

Labels are drawn uniformly at random, each apart where an answer has two. So the base answers in the contract most of
the time and knows nothing of the labels, as in the source notes at step 0. A tenth of the answers break the contract,
so that there is something to learn about it too. After every second abstract it is asked for words of it instead: a
model that never had to look back at a text needs many more rollouts before it finds anything there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinsmith.lab.base_recipe import BaseRecipe, Conversation, Progress, reading
from tinsmith.lab.labels.answers import Confidence
from tinsmith.lab.labels.leaks import prompt_messages
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.task import Task
from tinsmith.lab.nano_base import build_base
from tinsmith.renderers.renderer import Message, Role
from tinsmith.types.seeds import derive, random_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperBaseRecipe(BaseRecipe):
    """How a base is built from papers."""

    broken: float = 0.1
    """Share of demonstrations that break the contract."""
    reading_every: int = 2
    """Every so many-th demonstration asks for words of the abstract instead of a label; 0: none."""


def build_paper_base(
    recipe: PaperBaseRecipe, tasks: Sequence[Task], items: Sequence[Item], out: Path, *, say: Progress | None = None
) -> None:
    """Build the base from these papers and write it to `out`; see `build_base`."""
    build_base(recipe, paper_conversations(recipe, tasks, items), out, say=say)


def paper_conversations(recipe: PaperBaseRecipe, tasks: Sequence[Task], items: Sequence[Item]) -> list[Conversation]:
    """Make one conversation a paper: its prompt for a task, and an answer that has nothing to do with its labels.

    The answer has random labels and a random confidence, or words of the abstract.
    """
    # A draw for each label, one for the confidence, one for breaking the contract.
    width = max(len(task.subjects) for task in tasks) + 2
    bits = random_bits(derive(recipe.seed, "answers"), width * len(items))
    unit = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
    conversations: list[Conversation] = []
    for i, item in enumerate(items):
        task = tasks[i % len(tasks)]
        *drawn, sure, broken = unit[width * i : width * (i + 1)].tolist()
        said = tuple(
            subject.labels[int(each * len(subject.labels))] for subject, each in zip(task.subjects, drawn, strict=True)
        )
        answer = task.contract.answer_text(said, tuple(Confidence)[int(sure * len(Confidence))])
        if broken < recipe.broken:
            answer = _broken(answer, " and ".join(said), broken / recipe.broken)
        first = prompt_messages(task, item)
        if recipe.reading_every and i % recipe.reading_every == 0:
            first, answer = reading(first, item.paper.abstract, derive(recipe.seed, "words", i))
        conversations.append((*first, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


def _broken(answer: str, label: str, unit: float) -> str:
    """An answer that breaks the contract in one of the ways that models do."""
    fenced = f"```json\n{answer}\n```"
    return (fenced, label, answer[:-1], f"The paper is {label}.")[int(unit * 4)]
