"""Interface of the arithmetic: everything a device must compute to run and train a decoder.

Everything above calls these methods and nothing else, so that `canonical`, `invariant` and `fast` differ in one object.
Rows are tokens of several sequences without padding; `segments` are row boundaries between units of gradient (int64, n
+ 1). Gradients of weights are *added* into buffers: one chain per segment, and the segments' chains by a fixed binary
tree over their index (2i and 2i + 1 first, then the pairs), so that a sum over units has one value however they are
distributed.
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
    """Heads of a [q | k | v] row, and the scale of q."""

    heads: int
    kv_heads: int
    head_dim: int

    @property
    def scale(self) -> float:
        """head_dim ** -0.5."""
        return self.head_dim**-0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Parameters of each sampled row's draw, as arrays of equal length."""

    rows: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    samples: NDArray[np.int64]
    positions: NDArray[np.int64]
    temperatures: Floats
    top_ks: NDArray[np.int64]
    top_ps: NDArray[np.float64]


Pair = tuple[Tensor, Tensor]
WithPair = tuple[Tensor, Pair | None]
"""A tensor, and two more if requested."""
Floats = NDArray[np.float32]
Drawn = tuple[NDArray[np.int32], Floats]
"""Tokens, and their log-probabilities."""


class Kernels(Protocol):
    """Kernels of one device."""

    arithmetic: Arithmetic
    device: torch.device
    reads_bf16: bool = False
    """True if a product widens bf16 weights in registers, so that storing them as bf16 costs no time."""

    reads_packed: bool = False
    """True if a base is held in its published form, which the native kernels widen (`ops/packed.py`)."""

    pads_steps: bool = True
    """True if steps are recorded for powers of two of rows, because recording is slow there and a row is cheap."""

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        """Compute a [M, K] . b [K, N], a chain per 128 of k, added by the tree over their index; or add it to `into`.

        `b` is fp32, or bf16, which is widened exactly.
        """
        ...

    def nf4_product(self, x: Tensor, matrices: Sequence[Nf4Base]) -> Tensor:
        """Compute the product of x with the transposes of NF4 matrices that read the same rows, side by side."""
        parts = [self.nf4_transposed(m.codes, m.absmax, m.out_size, m.in_size) for m in matrices]
        return self.gemm(x, parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        """Add to `into` [M, N], per segment of rows, a[rows]^T . b[rows]."""
        ...

    def column_chain(self, x: Tensor, y: Tensor | None, segments: Tensor, into: Tensor) -> None:
        """Add to `into` [N], per segment, the column sums of x * y (of x without y)."""
        ...

    def embed(self, table: Tensor, ids: Tensor) -> Tensor:
        """Return rows of `table` [V, H], fp32 or bf16, by id, as fp32."""
        ...

    def embed_backward(self, ids: Tensor, dy: Tensor, segments: Tensor, into: Tensor) -> None:
        """Add to `into` [V, H], per segment, rows of dy summed by id in row order."""
        ...

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, gain: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return (x + delta, its RMS-normalised rows times gain, 1 / rms per row)."""
        ...

    def rms_norm_backward(
        self, x: Tensor, gain: Tensor, inv_rms: Tensor, d_sum: Tensor | None, dy: Tensor, *, want_xhat: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Return (gradient of x, x * inv_rms if requested)."""
        ...

    def rotate(self, qkv: Tensor, turn: Turn) -> Tensor:
        """Return [q | k | v] with q and k normalised per head (if there are gains) and rotated by position."""
        ...

    def rotate_backward(self, qkv: Tensor | None, dy: Tensor, turn: Turn, *, want_gains: bool) -> WithPair:
        """(gradient of qkv, rows whose column sums are the gains' gradients: [rows * heads, d] for q and for k).

        `qkv` is the input of `rotate`; only gains need it.
        """
        ...

    def store_keys(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages) -> None:
        """Write rotated k and v of every row into its page slot."""
        ...

    def store_slots(self, qkv: Tensor, shape: HeadShape, forest: Forest, pages: Pages) -> None:
        """Write rotated k and v into pages such that every node's page table holds the keys of its path."""
        ...

    def attention(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool) -> WithPair:
        """Compute causal attention of every row over its sequence's pages, [rows, heads * d].

        On request, also return the statistics of the scores for `attention_backward` of the same kernels.
        """
        ...

    def attention_backward(
        self, qkv: Tensor, shape: HeadShape, forest: Forest, out: Tensor, d_out: Tensor, stats: Pair
    ) -> Tensor:
        """Return the gradient of rotated qkv for whole trees: a key's is one chain over (query head, attending row)."""
        ...

    def silu_gate(self, gate_up: Tensor) -> Tensor:
        """Compute silu(gate) * up of rows [gate | up]."""
        ...

    def silu_gate_backward(self, gate_up: Tensor, dy: Tensor) -> Tensor:
        """Return the gradient of gate_up."""
        ...

    def route(self, logits: Tensor, routing: Routing) -> Routes:
        """Return the experts that each row of router logits [rows, E] takes, and their weights."""
        ...

    def route_backward(self, logits: Tensor, routing: Routing, routes: Routes, d_weights: Tensor) -> Tensor:
        """Return the gradient of the logits, given that of the weights [rows, active]."""
        ...

    def mixture(self, x: Tensor, mix: MixtureRows) -> Tensor:
        """Compute the weighted sum of each row's experts, ascending, [rows, H]; their bases are in full precision."""
        ...

    def mixture_forward(self, x: Tensor, mix: MixtureRows) -> tuple[Tensor, MixtureActivations]:
        """Compute as `mixture` does, and return the values for `mixture_backward`."""
        ...

    def mixture_backward(
        self, dy: Tensor, x: Tensor, mix: MixtureRows, segments: Tensor, saved: MixtureActivations
    ) -> tuple[Tensor, Tensor]:
        """Add the gradients of all trained weights; return (that of x, that of the routes' weights)."""
        ...

    def row_entropies(self, logits: Tensor) -> Tensor:
        """Return the entropy of the softmax over all experts of each row, in nats, [rows]."""
        ...

    def row_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the dot product of each row of x with that of y, [rows]."""
        ...

    def row_stats(self, logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Return per row the largest logit / temperature, and ln(sum exp(logit / temperature - largest))."""
        ...

    def gather_logprobs(self, logits: Tensor, targets: Tensor, stats: Pair, *, rows: Tensor | None = None) -> Tensor:
        """Return log softmax at temperature 1 of targets (int32), each in its row (None: one per row, in order)."""
        ...

    def logprob_backward(self, logits: Tensor, reads: Tensor, targets: Tensor, grads: Tensor, stats: Pair) -> Tensor:
        """Turn logits [rows, V] into their gradient, in place, and return it.

        Row r has the targets reads[r] .. reads[r + 1] (one or more), whose log-probabilities have these gradients; they
        are added in order, equal targets first.
        """
        ...

    def scale_bias(self, y: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
        """Compute y * scale + bias per column, in place."""
        ...

    def choose(self, logits: Tensor, draws: Draws) -> Drawn:
        """Draw a token for each drawing row; return it with its log-probability before top-k and top-p.

        At temperature 0 the most probable token (ties: the lower id), and its log-probability at temperature 1. A row
        with a NaN or +inf among its logits has no distribution: token -1, NaN.
        """
        ...

    def top_logprobs(self, logits: Tensor, rows: NDArray[np.int64], temperatures: Floats, k: int) -> Drawn:
        """Return each row's k likeliest tokens and their log-probabilities, descending, ties by lower id, [n, k]."""
        ...

    def adam(self, weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: AdamStep) -> None:
        """Apply one AdamW step, in place."""
        ...

    def sum_squares(self, x: Tensor) -> float:
        """Return the sum of squares in fp64 and in a fixed order."""
        ...

    def finite(self, tensors: Sequence[Tensor]) -> bool:
        """True if every element of all tensors is finite."""
        ...

    def nf4_transposed(self, codes: Tensor, absmax: Tensor, out: int, in_: int) -> Tensor:
        """Decode NF4 weights [out, in] to their transpose [in, out]."""
        ...

    def rope(self, frequencies: NDArray[np.float32], positions: int) -> Rope:
        """Return tables of cos and sin of position times frequency."""
        ...

    def identity(self) -> Mapping[str, str]:
        """Return the device and its compiler, as circumstances of a certificate; empty on the host."""
        return {}

    def free_bytes(self) -> int | None:
        """Return the free memory of the device; None if it is the host's."""
        return None

    def recorded(self, compute: Callable[[], Tensor]) -> Recorded | None:
        """Record the launches of `compute`, to repeat them at once; None if nothing can be recorded.

        It runs once or twice for this. It must read varying inputs from fixed memory, and must not wait.
        """
        del compute

    def threads(self) -> int:
        """Return the number of threads in use."""
        ...

    def set_threads(self, count: int) -> None:
        """Use this many threads; bits do not change if the arithmetic promises that."""
        ...


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded launches that can be repeated, and the tensor that they write."""

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
