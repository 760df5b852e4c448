"""Recipe of a nano base, and the conversations that it is trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from tinsmith.renderers.renderer import Message
from tinsmith.types.seeds import random_bits

Conversation = tuple[Message, ...]  # One or more prompts, and the reply to them.

Progress = Callable[[int, int, float], None]  # (step, steps, nats per token).


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRecipe:
    """Recipe of a base; recipe and training conversations together are its identity."""

    characters_per_token: ClassVar[float] = 3.75
    """Of what it reads, about, with its own tokenizer: of titles and abstracts."""

    preset: str = "nano"  # The shape, but for the next three.
    num_layers: int = 2
    vocab_size: int = 2048
    max_positions: int = 1024
    steps: int = 240
    batch_size: int = 32
    learning_rate: float = 4e-3
    warm_up: int = 20
    seed: int = 0


def reading(prompt: tuple[Message, ...], text: str, seed: int) -> tuple[tuple[Message, ...], str]:
    """Return a prompt with another last line, which asks for words of a text in it; and three of them, at random."""
    *before, last = prompt
    paper, _, _ = last.content.rpartition("\n")
    words = text.split() or ["none"]
    named = [words[int(bit) % len(words)].strip(".,") for bit in random_bits(seed, 3)]
    question = Message(role=last.role, content=f"{paper}\nReturn words.")
    return (*before, question), json.dumps(named, ensure_ascii=False)
