"""What a sweep's process is asked for and what it answers, one line of JSON each way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tinsmith.types.sketches import TensorMark

TEMPERATURES = (0.0, 1.0)
"""Completions are drawn at both; at the second with a fixed seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is computed in a cell."""

    completions: int = 32
    """Of the one prompt, at each temperature."""
    prompt: int = 40
    """Tokens."""
    tokens: int = 32
    """Of a completion."""
    steps: int = 3
    """Optimizer steps."""
    prompts: int = 6
    """Of a training step, two rollouts each."""
    rank: int = 8
    """Of the adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Cells that share a process."""

    model: str
    """A folder or a built-in model."""
    size: Size
    cells: tuple[tuple[int, Mapping[str, str]], ...]
    """Number and words of each cell, in the order in which they are computed."""
    folder: str
    """Where final weights and checkpoints are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled sequence, token by token."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    """fp32 values."""
    scored: tuple[float, ...]
    """The trainer's, of the same tokens."""
    top_tokens: tuple[int, ...]
    """The most probable token at each position."""
    top_logprobs: tuple[float, ...]
    routes: tuple[int, ...] = ()
    """Of a mixture: a number for each token that tells the experts of the row it was drawn from."""
    routed: tuple[int, ...] = ()
    """The trainer's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """One optimizer step; tensors by published name."""

    gradient: Mapping[str, TensorMark]
    weights: Mapping[str, TensorMark]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a cell gave: everything, or why it cannot be had here."""

    number: int
    unavailable: str | None = None
    completions: tuple[tuple[Completion, ...], ...] = ()
    """By temperature."""
    steps: tuple[Marks, ...] = ()
    weights_sha256: str = ""
    weights_file: str = ""
    """The final weights, an npz."""
    seconds: float = 0.0
    machine: Mapping[str, str] = field(default_factory=dict[str, str])
    """Libraries of the process that computed it."""
