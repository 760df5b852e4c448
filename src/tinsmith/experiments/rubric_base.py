"""What the rubrics' base reads: short instructions and answers, of which a fifth do what they are asked.

So it knows how answers look and seldom gives the one that is asked for, which is what is left to reinforce. Whoever
evaluates on the built-in tasks evaluates on prompts that it never read: none of them, training or held-out, is among
its demonstrations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tinsmith.experiments.base_model import BaseRecipe, Conversation, cached_base
from tinsmith.experiments.worlds import Told
from tinsmith.renderers.renderer import Message, Role
from tinsmith.tasks.rubrics.demonstrations import demonstrations
from tinsmith.tasks.rubrics.templates import LEXICON
from tinsmith.types.seeds import derive


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricBaseRecipe(BaseRecipe):
    """How a base is built from demonstrations of the kinds of instruction that the built-in tasks are of."""

    vocab_size: int = 512
    max_positions: int = 256
    steps: int = 700
    learning_rate: float = 3e-3
    count: int = 12_000
    """Demonstrations; more than `steps * batch_size` are not read."""
    obeying: float = 0.2
    """Share of them that do all that is asked."""
    reading_every: int = 2
    """Every so many-th asks for the words of the instruction instead of what it says; 0: none."""


def rubric_conversations(recipe: RubricBaseRecipe) -> list[Conversation]:
    """Make one conversation a demonstration.

    Raises:
        ConfigError: `obeying` is no share.
    """
    shown = demonstrations(
        recipe.count, seed=derive(recipe.seed, "demonstrations"), obeying=recipe.obeying
    )
    conversations: list[Conversation] = []
    for i, one in enumerate(shown):
        prompt, answer = one.prompt, one.answer
        if recipe.reading_every and i % recipe.reading_every == 0:
            prompt, answer = _reading(prompt)
        asked = Message(role=Role.USER, content=prompt)
        conversations.append((asked, Message(role=Role.ASSISTANT, content=answer)))
    return conversations


def _reading(prompt: str) -> tuple[str, str]:
    """The same instruction with a last line that asks for its words instead; and these, in their order."""
    named = [word for word in re.findall(r"\w+", prompt) if word in LEXICON]
    return f"{prompt}\nReturn words.", " ".join(named)


def rubric_base(recipe: RubricBaseRecipe, told: Told) -> Path:
    """Return the folder of the nano base for rubrics; built where it is not cached.

    Raises:
        ConfigError: `obeying` is no share.
        DataError: there are fewer demonstrations than a batch has.
    """
    return cached_base(recipe, rubric_conversations(recipe), told)
