"""Values of a sweep: what its processes are asked for and answer, and the figures of each cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tinsmith.lab.difference.runs import Phase
from tinsmith.types.sketches import TensorMark

TEMPERATURES = (0.0, 1.0)
"""Completions are drawn at both; at the second with a fixed seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Amount of what is computed in a cell."""

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
    """Takes final weights and checkpoints."""


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
    """Output of a cell, or why it cannot be had here."""

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


class Verdict(StrEnum):
    """Finding of a cell, beside what is promised of it."""

    REFERENCE = "reference"
    KEPT = "kept"
    """Promised to be equal, and equal in every bit."""
    BROKEN = "BROKEN"
    """Promised to be equal, and not."""
    SEEN = "seen"
    """A fault on purpose that shows."""
    UNSEEN = "NOT SEEN"
    """A fault on purpose that nothing shows."""
    EQUAL = "equal"
    """Though nothing is promised."""
    DIFFERENT = "different"
    """And nothing is promised."""
    UNAVAILABLE = "not here"
    """Cannot be had on this machine, or with this engine."""

    @property
    def wrong(self) -> bool:
        """True if something is not as it must be."""
        return self in (Verdict.BROKEN, Verdict.UNSEEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Distance of completions from others of the same prompt; figures without a token to be taken over are None."""

    tokens: int
    """Compared ones: the same token after the same tokens."""
    div_index: int | None
    """Div_Index: the first position at which a token differs; None: none does."""
    avg_std_top1_prob: float | None
    """Avg_Std@top1_prob: spread of the top token's probability over the completions, averaged over the positions before
    the first that differs."""
    unequal_bits: float | None
    """Share of the compared tokens whose log-probabilities are not the same float."""
    max_difference: float | None
    """Largest |d|, nats."""
    mean_difference: float | None
    kl_k3: float | None
    flip_rate: float | None
    """Share of the positions after the same tokens at which another token is the most probable one."""
    unequal_routes: float | None = None
    """Of a mixture: share of the compared tokens whose row took another expert in some layer."""

    @property
    def same(self) -> bool:
        """True if tokens, bits and routes are the same."""
        return self.div_index is None and self.unequal_bits == 0.0 and not self.unequal_routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The completions of one prompt at one temperature."""

    temperature: float
    completions: int
    unique: int
    """Different ones among them, by tokens."""
    unique_bits: int
    """By tokens and the bits of their log-probabilities."""
    within: Apart
    """From the cell's first one."""
    against: Apart
    """From the reference cell's first one."""
    trainer: Apart
    """The sampler's log-probabilities from the trainer's, of the same tokens in the same cell."""

    @property
    def one(self) -> bool:
        """True if all completions are one, and the trainer agrees."""
        return self.unique_bits == 1 and self.trainer.same


@dataclass(frozen=True, slots=True)
class Place:
    """First difference of training from the reference cell's."""

    step: int
    """From 0."""
    phase: Phase
    tensor: str
    size: float | None
    """||a - b|| / ||a||, estimated from sketches."""
    tensors: int
    """Unequal ones in that step and phase."""
    of_tensors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A few steps of training."""

    steps: int
    weights_sha256: str
    equal: bool
    """Gradients, weights and final hash are those of the reference cell."""
    first: Place | None
    weight_difference: float
    """Largest ||a - b|| / ||a|| of a tensor's final weights, against the reference cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One cell."""

    title: str
    changes: Mapping[str, str]
    """Values by factor, of those that are not the reference cell's."""
    cell: Mapping[str, str]
    verdict: Verdict
    unavailable: str | None = None
    """Why there is nothing below."""
    sampled: tuple[Sampled, ...] = ()
    """At temperature 0, and at temperature 1 with a fixed seed."""
    trained: Trained | None = None
    peers: Mapping[str, float] | None = None
    """Sampler against trainer under the names that other stacks use."""
    seconds: float = 0.0
    machine: Mapping[str, str] | None = None

    @property
    def unequal_routes(self) -> float | None:
        """Largest share of tokens routed otherwise than in the reference cell or by its trainer; None: no mixture."""
        return self.worst(lambda one: one.against.unequal_routes, lambda one: one.trainer.unequal_routes)

    def worst(self, *figures: Callable[[Sampled], float | None]) -> float | None:
        """Return the largest of some figures at both temperatures; None: there is none."""
        found = [value for one in self.sampled for of in figures if (value := of(one)) is not None]
        return max(found, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """A whole sweep; the first cell is the reference."""

    model: str
    completions: int
    prompt: int
    tokens: int
    steps: int
    machine: Mapping[str, str]
    cells: tuple[CellResult, ...]

    @property
    def routed(self) -> tuple[CellResult, ...]:
        """Cells of a mixture, whose routes were compared."""
        return tuple(cell for cell in self.cells if cell.unequal_routes is not None)

    @property
    def wrong(self) -> tuple[CellResult, ...]:
        """Cells that are not as they must be."""
        return tuple(cell for cell in self.cells if cell.verdict.wrong)
