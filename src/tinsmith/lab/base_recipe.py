"""Recipe of a nano base, and the conversations that it is built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinsmith.renderers.renderer import Message

Conversation = tuple[Message, ...]
"""One or more prompts, and the reply to them."""

Progress = Callable[[int, int, float], None]
"""(step, steps, nats per token)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRecipe:
    """Recipe of a base; its identity together with the conversations that it reads."""

    preset: str = "nano"
    """The shape, but for the next three."""
    num_layers: int = 2
    vocab_size: int = 2048
    max_positions: int = 1024
    steps: int = 240
    batch_size: int = 32
    learning_rate: float = 4e-3
    warm_up: int = 20
    seed: int = 0
