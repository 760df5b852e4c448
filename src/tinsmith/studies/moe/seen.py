"""What one way of computing the same texts showed, token by token: log-probabilities, routes, and greedy texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.datum import IntArray

Floats = NDArray[np.float32]
Experts = NDArray[np.int16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A prompt and what was drawn after it."""

    prompt: IntArray
    completion: IntArray

    @property
    def tokens(self) -> IntArray:
        """Both."""
        return np.concatenate([self.prompt, self.completion]).astype(np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One text."""

    logprobs: Floats
    """Of the completion's tokens, nats."""
    experts: Experts
    """(tokens - 1, layers, active): the experts of every token but the last, ascending."""


class Computes(Protocol):
    """One arithmetic, holding the model."""

    def forward(self, texts: Sequence[Text], batch: int) -> list[Seen]:
        """Whole texts, as a trainer computes them, `batch` at once."""
        ...

    def decode(self, texts: Sequence[Text], batch: int) -> list[Seen]:
        """Token by token over a cache, as a sampler computes them, `batch` texts at once."""
        ...

    def greedy(self, prompts: Sequence[IntArray], tokens: int, batch: int) -> list[IntArray]:
        """The most probable token after each, `tokens` times, `batch` texts at once."""
        ...


def chunks(count: int, size: int) -> list[range]:
    """Indices, `size` at a time."""
    return [range(at, min(at + size, count)) for at in range(0, count, size)]
