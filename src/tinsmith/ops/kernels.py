"""The one seam of the arithmetic: what a device must compute for a decoder to run and to be trained.

Everything above calls these methods and nothing else, so that `canonical`, `invariant` and `fast` differ in one
object. Rows are tokens of several sequences without padding; `segments` are row boundaries between units of gradient
(int64, n + 1). Gradients of weights are *added* into buffers: one chain per segment, and the segments' chains by a
fixed binary tree over their index (2i and 2i + 1 first, then the pairs), so that a sum over units has one value
however they are dealt out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.forest import Forest
from tinsmith.ops.paging import Pages, Rows
from tinsmith.ops.routing import Routes, Routing
from tinsmith.types.arithmetic import Arithmetic

if TYPE_CHECKING:
    from tinsmith.ops.experts import MixtureActivations, MixtureRows
    from tinsmith.ops.linear import Nf4Base


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """Heads of a [q | k | v] row, and how q is scaled."""

    heads: int
    kv_heads: int
    head_dim: int

    @property
    def scale(self) -> float:
        """head_dim ** -0.5."""
        return self.head_dim**-0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Parameters of each sampled row's draw; arrays of one length."""

    rows: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    samples: NDArray[np.int64]
    positions: NDArray[np.int64]
    temperatures: Floats
    top_ks: NDArray[np.int64]
    top_ps: NDArray[np.float64]


Pair = tuple[Tensor, Tensor]
WithPair = tuple[Tensor, Pair | None]
"""A tensor, and two beside it where they are wanted."""
Floats = NDArray[np.float32]
Drawn = tuple[NDArray[np.int32], Floats]
"""Tokens, and their log-probabilities."""


class Kernels(Protocol):
    """Arithmetic on one device."""

    arithmetic: Arithmetic
    device: torch.device
    reads_bf16: bool = False
    """True if a product widens bf16 weights in registers, so that holding them so costs nothing."""

    reads_packed: bool = False
    """True if a base is held as published: the native kernels widen it (`ops/packed.py`)."""

    pads_steps: bool = True
    """True if steps are recorded for powers of two of rows: to record one takes long there, and a row costs little."""

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        """A [M, K] . b [K, N], a chain per 128 of k, added by the tree over their index; with `into`, added to it.

        `b` is fp32, or bf16, which is widened exactly.
        """
        ...

    def nf4_product(self, x: Tensor, matrices: Sequence[Nf4Base]) -> Tensor:
        """The product of x with the transposes of NF4 matrices that read the same rows, side by side."""
        parts = [self.nf4_transposed(m.codes, m.absmax, m.out_size, m.in_size) for m in matrices]
        return self.gemm(x, parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        """Into [M, N] += per segment of rows, a[rows]^T . b[rows]."""
        ...

    def column_chain(self, x: Tensor, y: Tensor | None, segments: Tensor, into: Tensor) -> None:
        """Into [N] += per segment, the column sums of x * y (of x without y)."""
        ...

    def embed(self, table: Tensor, ids: Tensor) -> Tensor:
        """Rows of `table` [V, H], fp32 or bf16, by id, as fp32."""
        ...

    def embed_backward(self, ids: Tensor, dy: Tensor, segments: Tensor, into: Tensor) -> None:
        """Into [V, H] += per segment, rows of dy summed by id in row order."""
        ...

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, gain: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """(x + delta, its RMS-normalised rows times gain, 1 / rms per row)."""
        ...

    def rms_norm_backward(
        self, x: Tensor, gain: Tensor, inv_rms: Tensor, d_sum: Tensor | None, dy: Tensor, *, want_xhat: bool
    ) -> tuple[Tensor, Tensor | None]:
        """(gradient of x, x * inv_rms if wanted)."""
        ...

    def rotate(self, qkv: Tensor, turn: Turn) -> Tensor:
        """[q | k | v] with q and k normalised per head (where there are gains) and rotated by position."""
        ...

    def rotate_backward(self, qkv: Tensor | None, dy: Tensor, turn: Turn, *, want_gains: bool) -> WithPair:
        """(gradient of qkv, rows whose column sums are the gains' gradients: [rows * heads, d] for q and for k).

        `qkv` is what was rotated; only gains need it.
        """
        ...

    def store_keys(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages) -> None:
        """Write rotated k and v of every row into its page slot."""
        ...

    def store_slots(self, qkv: Tensor, shape: HeadShape, forest: Forest, pages: Pages) -> None:
        """Write rotated k and v into pages such that every node's page table holds the keys of its path."""
        ...

    def attention(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool) -> WithPair:
        """Causal attention of every row over its sequence's pages, [rows, heads * d].

        Beside it, if wanted, what `attention_backward` of the same kernels needs of the scores.
        """
        ...

    def attention_backward(
        self, qkv: Tensor, shape: HeadShape, forest: Forest, out: Tensor, d_out: Tensor, stats: Pair
    ) -> Tensor:
        """Gradient of rotated qkv for whole trees: a key's is one chain over (query head, row that sees it)."""
        ...

    def silu_gate(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up of rows [gate | up]."""
        ...

    def silu_gate_backward(self, gate_up: Tensor, dy: Tensor) -> Tensor:
        """Gradient of gate_up."""
        ...

    def route(self, logits: Tensor, routing: Routing) -> Routes:
        """The experts that each row of router logits [rows, E] takes, and their weights."""
        ...

    def route_backward(self, logits: Tensor, routing: Routing, routes: Routes, d_weights: Tensor) -> Tensor:
        """Gradient of the logits, given that of the weights [rows, active]."""
        ...

    def mixture(self, x: Tensor, mix: MixtureRows) -> Tensor:
        """The weighted sum of each row's experts, ascending, [rows, H]; their bases are held in full precision."""
        ...

    def mixture_forward(self, x: Tensor, mix: MixtureRows) -> tuple[Tensor, MixtureActivations]:
        """As `mixture`, and what `mixture_backward` needs."""
        ...

    def mixture_backward(
        self, dy: Tensor, x: Tensor, mix: MixtureRows, segments: Tensor, kept: MixtureActivations
    ) -> tuple[Tensor, Tensor]:
        """Add the gradients of all trained weights; (that of x, that of the routes' weights)."""
        ...

    def row_entropies(self, logits: Tensor) -> Tensor:
        """The entropy of the softmax over all experts of each row, in nats, [rows]."""
        ...

    def row_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """The dot product of each row of x with that of y, [rows]."""
        ...

    def row_stats(self, logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Per row: the largest logit / temperature, and ln(sum exp(logit / temperature - largest))."""
        ...

    def gather_logprobs(self, logits: Tensor, targets: Tensor, stats: Pair, *, rows: Tensor | None = None) -> Tensor:
        """Log softmax at temperature 1 of targets (int32), each in its row (None: one target a row, in order)."""
        ...

    def logprob_backward(self, logits: Tensor, reads: Tensor, targets: Tensor, grads: Tensor, stats: Pair) -> Tensor:
        """Turn logits [rows, V] into their gradient, in place, and return it.

        Row r was read for the targets reads[r] .. reads[r + 1] (one or more), whose log-probabilities have these
        gradients; they are added in their order, those of one target first.
        """
        ...

    def scale_bias(self, y: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
        """Y = y * scale + bias per column, in place."""
        ...

    def choose(self, logits: Tensor, draws: Draws) -> Drawn:
        """The drawn token of each drawing row, and its log-probability before top-k and top-p.

        At temperature 0 the most probable token (ties: the lower id), and its log-probability at temperature 1. A row
        whose logits hold a NaN or +inf has no distribution: token -1, NaN.
        """
        ...

    def top_logprobs(self, logits: Tensor, rows: NDArray[np.int64], temperatures: Floats, k: int) -> Drawn:
        """The k most probable tokens of each row, descending, ties by lower id: [n, k] twice."""
        ...

    def adam(self, weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: AdamStep) -> None:
        """One AdamW step, in place."""
        ...

    def sum_squares(self, x: Tensor) -> float:
        """Sum of squares in fp64 and in a fixed order."""
        ...

    def finite(self, tensors: Sequence[Tensor]) -> bool:
        """True if every element of all tensors is finite."""
        ...

    def nf4_transposed(self, codes: Tensor, absmax: Tensor, out: int, in_: int) -> Tensor:
        """NF4 weights [out, in] decoded as their transpose [in, out]."""
        ...

    def rope(self, frequencies: NDArray[np.float32], positions: int) -> Rope:
        """Tables of cos and sin of position times frequency."""
        ...

    def identity(self) -> Mapping[str, str]:
        """Return a device of its own and its compiler, as circumstances; empty on the host."""
        return {}

    def free_bytes(self) -> int | None:
        """Memory that is free on the device; None: it is the host's."""
        return None

    def recorded(self, compute: Callable[[], Tensor]) -> Recorded | None:
        """Record what `compute` launches, to be launched again at once; None where nothing is recorded.

        It is run once or twice meanwhile. It must read what changes from memory that stays, and wait for nothing.
        """
        del compute

    def threads(self) -> int:
        """Threads in use."""
        ...

    def set_threads(self, count: int) -> None:
        """Use this many threads; bits do not change where they are promised."""
        ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """Launches that can be repeated, and the tensor that they write each time."""

    out: Tensor
    replay: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Rope:
    """cos and sin, each (positions, head_dim / 2)."""

    cos: Tensor
    sin: Tensor


@dataclass(frozen=True, slots=True)
class Turn:
    """Rotation of the heads of some rows."""

    shape: HeadShape
    positions: Tensor
    rope: Rope
    gains: HeadGains | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadGains:
    """Gains and epsilon of the per-head RMSNorm of q and k (Qwen3)."""

    q: Tensor
    k: Tensor
    eps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdamStep:
    """Scalars of one AdamW step; bias_t = 1 - beta_t ** step."""

    learning_rate: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    grad_scale: float
    bias1: float
    bias2: float
