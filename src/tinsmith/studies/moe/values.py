"""Values of `moe/wander`: whose arithmetic, the texts, what a way of computing them showed, and the figures of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.datum import IntArray

Given = TypeVar("Given")
Made = TypeVar("Made")
Floats = NDArray[np.float32]
Experts = NDArray[np.int16]


class Engine(StrEnum):
    """Arithmetic that computes."""

    CANONICAL = "canonical"
    FAST = "fast"
    """Our decoder on the vendor's kernels."""
    TRANSFORMERS = "transformers"
    """As it comes: its own attention and its own experts."""


class Dtype(StrEnum):
    """Type of the numbers."""

    FP32 = "fp32"
    BF16 = "bf16"
    """Canonical: weights rounded to bf16, computed with in fp32. Fast: products of bf16. transformers: all of it."""


@dataclass(frozen=True, slots=True)
class Side:
    """One arithmetic."""

    engine: Engine
    dtype: Dtype

    def __str__(self) -> str:
        return f"{self.engine} {self.dtype}"


class Way(StrEnum):
    """Ways to compute texts."""

    FORWARD = "forward"
    """Whole, as a trainer does."""
    DECODE = "decode"
    """Token by token over a cache, as a sampler does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Amount of what is measured; the names are those of the keys."""

    base_steps: int
    prompts: int
    samples: int
    prompt_tokens: int
    tokens: int
    batches: tuple[int, ...]
    seed: int


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
    """One text as it was computed."""

    logprobs: Floats
    """Of the completion's tokens, nats."""
    experts: Experts
    """(tokens - 1, layers, active): the experts of every token but the last, ascending."""


class Computes(Protocol):
    """One arithmetic, holding the model; what it is given is computed at once."""

    def forward(self, texts: Sequence[Text]) -> list[Seen]:
        """Compute whole texts, as a trainer does."""
        ...

    def decode(self, texts: Sequence[Text]) -> list[Seen]:
        """Compute texts token by token over a cache, as a sampler does."""
        ...

    def greedy(self, prompts: Sequence[IntArray], tokens: int) -> list[IntArray]:
        """Draw the most probable token after each, `tokens` times."""
        ...


def batched(compute: Callable[[Sequence[Given]], Sequence[Made]], items: Sequence[Given], size: int) -> list[Made]:
    """Return what is computed of some items, `size` at once."""
    return [one for at in range(0, len(items), size) for one in compute(items[at : at + size])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One way of computing the texts, beside another."""

    changed_routes: int
    """Tokens that take another expert in some layer."""
    tokens: int
    """Tokens whose routes are compared: all but the last of each text."""
    share: float
    """Of tokens with changed routes."""
    interval: tuple[float, float]
    """Its 95 % interval; texts are the unit."""
    changed_texts: int
    """With a changed route in any token."""
    texts: int
    unequal_logprob_bits: float
    """Share of the completions' tokens whose log-probability is another float."""
    max_logprob_difference: float
    """Nats."""
    mean_logprob_difference: float

    @property
    def is_moved(self) -> bool:
        """True if a route or a log-probability is another."""
        return self.changed_routes > 0 or self.unequal_logprob_bits > 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One arithmetic, way and batch, beside the same arithmetic's forward pass of each text by itself.

    Without a way: that forward pass beside canonical arithmetic's.
    """

    side: Side
    compared: Compared
    way: Way | None = None
    batch: int = 1

    @property
    def name(self) -> str:
        """Names the row."""
        return f"{self.side}, {self.way} {self.batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy:
    """Greedy texts of a batch, beside the same prompts' by themselves."""

    side: Side
    batch: int
    texts: int
    parted: int
    """That differ somewhere."""
    first: tuple[int, ...]
    """Of those, the first position that differs, ascending; from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRatios:
    """One RL step on policy: sampled in a batch by decoding, trained on whole texts by the same arithmetic."""

    side: Side
    batch: int
    tokens: int
    unequal_routes: int
    """Tokens that the trainer routes otherwise than the sampler did."""
    ratios_not_one: float
    """Share of importance ratios that are not exactly 1."""
    least_ratio: float
    largest_ratio: float
    clipped: Mapping[str, float]
    """By loss, the share of tokens whose ratio its thresholds clip."""
    angle_degrees: Mapping[str, float]
    """By loss, between the gradient and that with all ratios 1, both by canonical arithmetic."""
    whole_angle_degrees: float | None
    """Between the gradient of importance sampling as this arithmetic computes all of it, and canonical's with all
    ratios 1; None: it was not computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wander:
    """Results of the measurement."""

    model: str
    fingerprint: str
    settings: Amounts
    machine: Mapping[str, str]
    rows: tuple[Row, ...]
    distances: tuple[Row, ...]
    greedy: tuple[Greedy, ...]
    steps: tuple[StepRatios, ...]


def wander_json(done: Wander) -> dict[str, object]:
    """Return the results as values of JSON: a row for each arithmetic, way and batch."""
    own = [row for row in done.rows if row.side.engine is Engine.CANONICAL]
    return {
        "ok": not any(row.compared.is_moved for row in own),
        "model": done.model,
        "fingerprint": done.fingerprint,
        "settings": asdict(done.settings),
        "machine": dict(done.machine),
        "rows": [_flat(row) for row in done.rows],
        "from_canonical": [_flat(row) for row in done.distances],
        "greedy": [_flat(one) for one in done.greedy],
        "rl_step": [_flat(one) for one in done.steps],
    }


def _flat(one: Row | Greedy | StepRatios) -> dict[str, Any]:
    values = asdict(one)
    compared = values.pop("compared", {})
    if values.get("way", "") is None:
        del values["way"], values["batch"]
    side = values.pop("side")
    return {"arithmetic": side["engine"], "dtype": side["dtype"], **values, **compared}
