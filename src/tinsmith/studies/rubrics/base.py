"""What the rubrics' base reads: short instructions with answers, few of which do what they are asked.

So it knows how answers look and seldom gives the one that is asked for, which is what is left to reinforce. Every
second instruction asks for its own words instead: without these a small model never finds out that an answer may depend
on the words of its prompt, and rewards then teach it little but the text that passes most rubrics whatever is asked.

No prompt of the built-in tasks, training or held-out, is among its demonstrations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tinsmith.lab.nano_base import BaseRecipe, Conversation, cached_base
from tinsmith.renderers.renderer import Message, Role
from tinsmith.studies.rubrics.demonstrations import demonstrations
from tinsmith.studies.rubrics.templates import LEXICON
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricBaseRecipe(BaseRecipe):
    """How a base is built from demonstrations of the kinds of instruction that the built-in tasks are of."""

    vocab_size: int = 512
    max_positions: int = 256
    steps: int = 1500
    learning_rate: float = 3e-3
    count: int = 24_000
    """Demonstrations; as many steps as these read each of them twice."""
    obeying: float = 0.15
    """Share of them that do all that is asked on purpose; a few others do by chance."""
    reading_every: int = 2
    """Every so many-th asks for the words of its instruction instead; 0: none."""


def rubric_conversations(recipe: RubricBaseRecipe) -> list[Conversation]:
    """Make one conversation a demonstration.

    Raises:
        ConfigError: `obeying` is no share, or `count` is below 0.
    """
    seed = derive(recipe.seed, "demonstrations")
    conversations: list[Conversation] = []
    for i, shown in enumerate(demonstrations(recipe.count, seed=seed, obeying=recipe.obeying)):
        prompt, answer = shown.prompt, shown.answer
        if recipe.reading_every and i % recipe.reading_every == 0:
            prompt, answer = _reading(prompt)
        asked = Message(role=Role.USER, content=prompt)
        conversations.append((asked, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


def rubric_base(recipe: RubricBaseRecipe, told: Callable[[str], None]) -> Path:
    """Return the folder of the nano base for rubrics; built where it is not cached.

    Raises:
        ConfigError: `obeying` is no share, or `count` is below 0.
        DataError: there are fewer demonstrations than a batch has.
    """
    return cached_base(recipe, rubric_conversations(recipe), told)


def _reading(instruction: str) -> tuple[str, str]:
    """The instruction with a last line that asks for words; and those that it names, in its order."""
    named = [word for word in re.findall(r"\w+", instruction) if word in LEXICON]
    return f"{instruction}\nReturn words.", " ".join(named)
