"""Values of `moe/wander`: whose arithmetic, how much is measured, the texts, and how a text was computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.measurement import at_least
from tinsmith.types.datum import IntArray
from tinsmith.types.errors import ConfigError

Given = TypeVar("Given")
Made = TypeVar("Made")
Floats = NDArray[np.float32]
Experts = NDArray[np.int16]


class Engine(StrEnum):
    """Arithmetic that computes: canonical, our decoder on the vendor's kernels, or transformers as it comes."""

    CANONICAL = "canonical"
    FAST = "fast"
    TRANSFORMERS = "transformers"


class Dtype(StrEnum):
    """Type of the numbers; bf16 is of weights (canonical), of products (fast), or of all (transformers)."""

    FP32 = "fp32"
    BF16 = "bf16"


@dataclass(frozen=True, slots=True)
class Side:
    """One arithmetic."""

    engine: Engine
    dtype: Dtype

    def __str__(self) -> str:
        return f"{self.engine} {self.dtype}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Amount of what is measured."""

    base_steps: int = 120
    """Steps of next-token training on the built-in corpus before anything is measured; 0 for a model that is trained
    already."""
    prompts: int = 24
    """Number of prompts."""
    samples: int = 4
    """Texts of each prompt: a group of RL."""
    prompt_tokens: int = 40
    """Most tokens of a prompt; lengths differ."""
    tokens: int = 32
    """Tokens of a text."""
    batches: tuple[int, ...] = (8, 32)
    """Sizes of batches, beside one by one; the RL step is of the largest."""
    seed: int = 0
    """Of weights, prompts, texts and rewards."""

    def __post_init__(self) -> None:
        at_least(0, base_steps=self.base_steps, seed=self.seed)
        at_least(1, prompts=self.prompts)
        at_least(2, samples=self.samples, tokens=self.tokens)
        at_least(8, prompt_tokens=self.prompt_tokens)
        if min(self.batches) < 2 or len(set(self.batches)) < len(self.batches):
            what = "every batch holds several texts; one by one is computed anyhow"
            allowed = "different whole numbers, 2 or more, with commas between them"
            raise ConfigError(what, field="batches", value=",".join(map(str, self.batches)), allowed=allowed)


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
    """One text as it was computed: log-probabilities of the completion's tokens, in nats, and experts.

    `experts` (tokens - 1, layers, active) are those of every token but the last, ascending.
    """

    logprobs: Floats
    experts: Experts


def batched(compute: Callable[[Sequence[Given]], Sequence[Made]], items: Sequence[Given], size: int) -> list[Made]:
    """Return what is computed of some items, `size` at once."""
    return [one for at in range(0, len(items), size) for one in compute(items[at : at + size])]
