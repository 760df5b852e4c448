"""`canonical` on a GPU: the `Kernels` interface over CUDA kernels, with the bits of `NativeKernels`.

Every tensor is on the device; index tensors may be on the host. The choice of a product's tiles affects speed only, and
no bit. torch allocates, copies, and computes elementwise steps of a single IEEE rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.cuda.driver import Driver
from tinsmith.ops.cuda.lists import CHAIN, Uploads, chains_of, forest_layout
from tinsmith.ops.cuda.table import Value, kernels
from tinsmith.ops.extension import module
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import AdamStep, Drawn, Draws, Floats, HeadShape, Pair, Recorded, Rope, Turn, WithPair
from tinsmith.ops.linear import Nf4Base
from tinsmith.ops.mixture import OneByOne
from tinsmith.ops.paging import Pages, Rows
from tinsmith.ops.routing import Routes, Routing
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError

MOST_HEAD_DIM = 128
"""Widest head of the attention kernels."""
SMALL, LARGE, BY_SIZE = 1, 2, 3
"""Tiles of 64 x 64, of 128 x 128, and those that fill the GPU, selected in place of a number of threads."""
_FILLED = 96
"""Number of blocks from which on large tiles are faster than four times as many small ones."""
_LARGE_DEPTH = 8
"""Most pending sums of a large tile (native/cuda/products.cuh)."""
_FEW = 8
"""Number of rows up to which a product is computed by column, not by tile."""


class _Chains(NamedTuple):
    """List of chains on the device."""

    at: Tensor
    depth: int
    """Most sums that are pending at once."""


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


class CudaKernels(OneByOne):
    """Kernels of `native/cuda` on a backend: a GPU, or an emulated grid."""

    arithmetic: Arithmetic = Arithmetic.CANONICAL
    reads_bf16: bool = True

    def __init__(self, backend: Driver) -> None:
        self.backend = backend
        self.device: torch.device = backend.device
        self.identity = backend.identity
        self.free_bytes = backend.free_bytes
        self._tiles = BY_SIZE
        self.use_graphs = True
        """True to record graphs where possible; no bit changes."""
        self._uploads = Uploads(self.device)
        self._chains = cache(self._of_length)
        """Chains of products over k terms: retained for good, as graphs read them."""
        self._latest = lru_cache(64)(self._listed)
        self._layout: tuple[Forest, tuple[Tensor, ...]] | None = None

    # Products

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        c = self._new(a.shape[0], b.shape[1]) if into is None else into
        self._product(a.detach(), b.detach(), c, self._chains(a.shape[1]), add=into is not None, few=True)
        return c

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        self._product(a.detach().t(), b.detach(), into, self._segments(segments), add=True, few=False)

    def nf4_product(self, x: Tensor, matrices: Sequence[Nf4Base]) -> Tensor:
        widths, chains = [matrix.out_size for matrix in matrices], self._chains(x.shape[1])
        y = self._new(x.shape[0], sum(widths))
        for part, of in zip(y.split(widths, dim=1), matrices, strict=True):
            codes = of.codes.as_strided((1, 1), (1, x.shape[1]))  # as a matrix of weights
            self._launch_product("gemm_nt", "_nf4", x.detach(), codes, of.absmax, part, chains, add=False, few=True)
        return y

    def column_chain(self, x: Tensor, y: Tensor | None, segments: Tensor, into: Tensor) -> None:
        chains = self._segments(segments)
        self._run("column_chain", x.shape[1], x, y, chains.at, into, len(chains.at), x.shape[1])

    def embed(self, table: Tensor, ids: Tensor) -> Tensor:
        return table.detach()[self._uploads.of(ids)].float()

    def embed_backward(self, ids: Tensor, dy: Tensor, segments: Tensor, into: Tensor) -> None:
        all_ids, cuts = ids.cpu().numpy(), segments.cpu().numpy()
        rows = np.arange(cuts[0], cuts[-1])
        order = rows[np.argsort(all_ids[rows], kind="stable")]
        segment = np.searchsorted(cuts, order, side="right") - 1
        distinct, begins = np.unique(all_ids[order], return_index=True)
        chains = [np.zeros((0, 4), np.int32)]
        for begin, end in pairwise([*begins.tolist(), len(order)]):
            within = np.searchsorted(segment[begin:end], range(1, len(cuts)))
            one = segment[begin] == segment[end - 1]
            chains.append(chains_of([begin, end] if one else [begin, *(begin + within)]))
        chain_begin = np.cumsum(list(map(len, chains)))
        listed = (self._put(x) for x in (order, distinct, chain_begin, np.concatenate(chains)))
        self._run("embed_backward", len(distinct), dy, *listed, into, dy.shape[1])

    # Rows

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, gain: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        total = x if delta is None else torch.empty_like(x)
        y, inv_rms = torch.empty_like(x), self._new(x.shape[0])
        self._run("add_rms_norm", x.shape[0], x, delta, gain, total, y, inv_rms, *x.shape, eps)
        return total, y, inv_rms

    def rms_norm_backward(
        self, x: Tensor, gain: Tensor, inv_rms: Tensor, d_sum: Tensor | None, dy: Tensor, *, want_xhat: bool
    ) -> tuple[Tensor, Tensor | None]:
        dx, xhat = torch.empty_like(x), torch.empty_like(x) if want_xhat else None
        self._run("rms_norm_backward", x.shape[0], x, gain, inv_rms, d_sum, dy, dx, xhat, *x.shape)
        return dx, xhat

    def rotate(self, qkv: Tensor, turn: Turn) -> Tensor:
        return self._rotate(qkv, None, turn, (None, None))

    def rotate_backward(self, qkv: Tensor | None, dy: Tensor, turn: Turn, *, want_gains: bool) -> WithPair:
        n, heads, d = dy.shape[0], turn.shape, turn.shape.head_dim
        rows = (self._new(n * heads.heads, d), self._new(n * heads.kv_heads, d)) if want_gains else None
        return self._rotate(dy if qkv is None else qkv, dy, turn, rows or (None, None)), rows

    def _rotate(self, x: Tensor, dy: Tensor | None, turn: Turn, sums: Pair | tuple[None, None]) -> Tensor:
        shape, rope, gains = turn.shape, turn.rope, turn.gains
        q, k, eps = (None, None, 0.0) if gains is None else (gains.q, gains.k, gains.eps)
        return self._filled(
            torch.empty_like(x), "rotate", x.shape[0] * (shape.heads + 2 * shape.kv_heads), x, dy,
            self._uploads.of(turn.positions), rope.cos, rope.sin, q, k, *sums, x.shape[0], shape.heads, shape.kv_heads,
            shape.head_dim, eps,
        )  # fmt: skip

    def silu_gate(self, gate_up: Tensor) -> Tensor:
        rows, width = gate_up.shape[0], gate_up.shape[1] // 2
        return self._filled(self._new(rows, width), "silu_gate", rows * width, gate_up, None, rows, width)

    def silu_gate_backward(self, gate_up: Tensor, dy: Tensor) -> Tensor:
        return self._filled(torch.empty_like(gate_up), "silu_gate", dy.numel(), gate_up, dy, *dy.shape)

    def scale_bias(self, y: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
        self._run("scale_bias", y.numel(), y, scale, bias, *y.shape)

    # Attention

    def store_keys(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages) -> None:
        self._store(qkv, shape, pages, None, *self._sequences(rows), len(rows.first_pos), len(qkv))

    def store_slots(self, qkv: Tensor, shape: HeadShape, forest: Forest, pages: Pages) -> None:
        self._store(qkv, shape, pages, self._uploads.of(forest.slots), None, None, None, 0, len(forest.slots))

    def _store(self, qkv: Tensor, shape: HeadShape, pages: Pages, *where: Tensor | int | None) -> None:
        heads = (shape.heads, shape.kv_heads, shape.head_dim, pages.values.shape[3])
        count = int(where[-1] or 0) * shape.kv_heads * shape.head_dim
        self._run("store", count, qkv, pages.keys, pages.values, *where, *heads)

    def _sequences(self, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
        of = self._uploads.of
        return of(rows.table, torch.int32), of(rows.row_begin), of(rows.first_pos)

    def attention(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool) -> WithPair:
        n, sequences = qkv.shape[0], len(rows.first_pos)
        out = self._new(n, shape.heads * shape.head_dim)
        stats = (self._new(n, shape.heads), self._new(n, shape.heads)) if want_stats else None
        longest = n - sequences + 1  # an upper bound, if only the device knows the value
        if rows.row_begin.device.type == "cpu":
            longest = int(rows.row_begin.diff().max()) if sequences else 0
        pairs = longest * (shape.heads // shape.kv_heads)
        few = pairs <= 16 if self._tiles == BY_SIZE else self._tiles == SMALL
        self._run(
            "attention_few" if few else "attention", (_blocks(pairs, 16 if few else 64), sequences, shape.kv_heads),
            qkv, pages.keys, pages.values, *self._sequences(rows), out, *(stats or (None, None)), shape.heads,
            shape.kv_heads, shape.head_dim, pages.values.shape[3], shape.scale,
        )  # fmt: skip
        return out, stats

    def attention_backward(
        self, qkv: Tensor, shape: HeadShape, forest: Forest, out: Tensor, d_out: Tensor, stats: Pair
    ) -> Tensor:
        d_qkv, n, d = torch.empty_like(qkv), qkv.shape[0], shape.head_dim
        if self._layout is None or self._layout[0] is not forest:
            self._layout = (forest, forest_layout(forest, self.device))
        of = self._layout[1]
        delta = self.row_dots(d_out.reshape(-1, d), out.reshape(-1, d))
        given = (qkv, d_out, *stats, delta, d_qkv, *of, n, shape.heads, shape.kv_heads, d, shape.scale)
        self._run("attention_dq", (len(of[2]), shape.heads), *given)
        self._run("attention_dkv", (_blocks(n, 64), shape.kv_heads), *given)
        return d_qkv

    # Mixtures

    def route(self, logits: Tensor, routing: Routing) -> Routes:
        rows, experts = logits.shape
        chosen = torch.empty(rows, routing.active, dtype=torch.int64, device=self.device)
        weights = self._new(rows, routing.active)
        self._run("route", rows, None, logits, chosen, weights, None, routing.active, routing.normalised, experts)
        return Routes(chosen, weights)

    def route_backward(self, logits: Tensor, routing: Routing, routes: Routes, d_weights: Tensor) -> Tensor:
        given = (logits, routes.experts, routes.weights, d_weights.contiguous())
        how = (routing.active, routing.normalised, logits.shape[1])
        return self._filled(torch.empty_like(logits), "route_backward", logits.shape[0], *given, *how)

    def row_entropies(self, logits: Tensor) -> Tensor:
        rows, experts = logits.shape
        return self._filled(self._new(rows), "row_entropies", rows, logits, None, None, None, 0, 0, experts)

    def row_dots(self, x: Tensor, y: Tensor) -> Tensor:
        return self._filled(self._new(x.shape[0]), "row_dots", x.shape[0], x, y, *x.shape)

    # Vocabulary

    def row_stats(self, logits: Tensor, temperature: float | Tensor) -> tuple[Tensor, Tensor]:
        """Return the statistics of rows at one temperature, or at each row's own."""
        each, one = (temperature, 1.0) if isinstance(temperature, Tensor) else (None, temperature)
        top, log_sum = self._new(logits.shape[0]), self._new(logits.shape[0])
        self._run("row_stats", logits.shape[0], logits, each, top, log_sum, logits.shape[1], one)
        return top, log_sum

    def gather_logprobs(self, logits: Tensor, targets: Tensor, stats: Pair, *, rows: Tensor | None = None) -> Tensor:
        wanted, read = self._uploads.of(targets, torch.int32), None if rows is None else self._uploads.of(rows)
        return self._gathered(logits, read, wanted, None, stats, 1)

    def _gathered(
        self, logits: Tensor, rows: Tensor | None, targets: Tensor, temperatures: Tensor | None, stats: Pair, k: int
    ) -> Tensor:
        out, count, given = self._new(*targets.shape), targets.numel(), (logits, rows, targets, temperatures, *stats)
        return self._filled(out, "gather_logprobs", count, *given, count, k, logits.shape[1])

    def logprob_backward(self, logits: Tensor, reads: Tensor, targets: Tensor, grads: Tensor, stats: Pair) -> Tensor:
        at, wanted = self._uploads.of(reads), self._uploads.of(targets, torch.int32)
        self._run("logprob_backward", logits.shape[0], logits, at, wanted, grads, *stats, logits, logits.shape[1])
        return logits

    def choose(self, logits: Tensor, draws: Draws) -> Drawn:
        vocab = logits.shape[1]
        ranked = ((draws.top_ks > 0) & (draws.top_ks < vocab)) | (draws.top_ps < 1)
        ranked &= draws.temperatures != 0
        tokens, logprobs = np.empty(len(ranked), np.int32), np.empty(len(ranked), np.float32)
        for indices in (np.flatnonzero(~ranked), np.flatnonzero(ranked)):
            if not len(indices):
                continue
            wide = (draws.rows, draws.seeds, draws.samples, draws.positions, draws.top_ks, draws.top_ps)
            parts = [each[indices].view(np.uint8) for each in (*wide, draws.temperatures)]
            given = self._put(np.concatenate(parts))  # one copy to the device, and one back
            order = self._ranked(logits[given[: 8 * len(indices)].view(torch.int64)]) if ranked[indices[0]] else None
            found = self._new(2, len(indices))
            self._run("choose_row", len(indices), logits, *given.split(list(map(len, parts))), order, *found, vocab)
            both = found.cpu().numpy()
            tokens[indices], logprobs[indices] = both[0].view(np.int32), both[1]
        return tokens, logprobs

    def top_logprobs(self, logits: Tensor, rows: NDArray[np.int64], temperatures: Floats, k: int) -> Drawn:
        some = logits[self._put(rows)]
        heat = self._put(np.where(temperatures == 0, np.float32(1), temperatures))
        tokens = self._ranked(some)[:, :k].int().contiguous()
        found = self._gathered(some, None, tokens, heat, self.row_stats(some, heat), k)
        return tokens.cpu().numpy(), found.cpu().numpy()

    @staticmethod
    def _ranked(logits: Tensor) -> Tensor:
        """Return the tokens of each row by descending logit, ties by lower id; -0 equals +0 once 0 is added."""
        return torch.sort(logits + 0.0, dim=1, descending=True, stable=True).indices

    # State

    def adam(self, weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: AdamStep) -> None:
        self._run(
            "adam", weight.numel(), weight, grad.contiguous(), m, v, weight.numel(), step.learning_rate, step.beta1,
            step.beta2, step.eps, step.grad_scale, 1.0 - step.beta1, 1.0 - step.beta2,
            1.0 - step.learning_rate * step.weight_decay, step.bias1, step.bias2,
        )  # fmt: skip

    def sum_squares(self, x: Tensor) -> float:
        out = torch.empty(1, dtype=torch.float64, device=self.device)
        return float(self._filled(out, "sum_squares", 1, x, x.numel()))

    def finite(self, tensors: Sequence[Tensor]) -> bool:
        bad = torch.zeros(1, dtype=torch.int32, device=self.device)
        for x in tensors:
            self._run("not_finite", x.numel(), x, bad, x.numel())
        return not int(bad)

    def nf4_transposed(self, codes: Tensor, absmax: Tensor, out: int, in_: int) -> Tensor:
        return self._filled(self._new(in_, out), "nf4_transposed", out * in_, codes, absmax, out, in_)

    def rope(self, frequencies: NDArray[np.float32], positions: int) -> Rope:
        """Compute the tables in fp64 on the host, once per model."""
        if 2 * len(frequencies) > MOST_HEAD_DIM:
            raise BackendError(f"heads of {2 * len(frequencies)} are too wide for a GPU: at most {MOST_HEAD_DIM}")
        cos, sin = (np.empty((positions, len(frequencies)), np.float32) for _ in range(2))
        module().rope_table(frequencies, cos, sin)
        return Rope(self._put(cos), self._put(sin))

    def swept(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the results of the device's operations on patterns: a row for each that `sweep` of state.cu names."""
        return self._filled(self._new(7, len(x)), "sweep", len(x), x, y, len(x))

    def recorded(self, compute: Callable[[], Tensor]) -> Recorded | None:
        return self.backend.record(compute) if self.use_graphs else None

    def threads(self) -> int:
        """Return the tiles in use: 1 for small ones, 2 for large ones, 3 by size."""
        return self._tiles

    def set_threads(self, count: int) -> None:
        """Use these tiles; no bit changes."""
        self._tiles = min(count, BY_SIZE)

    # Launches

    def _new(self, *shape: int) -> Tensor:
        return torch.empty(*shape, device=self.device)

    def _put(self, x: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x)).to(self.device)

    def _run(self, name: str, over: int | tuple[int, ...], *values: Value) -> None:
        """Launch over a grid of blocks, or over the kernel's elements or rows."""
        kernel = kernels()[name]
        grid = (_blocks(over, kernel.per_block),) if isinstance(over, int) else over
        if all(grid):
            self.backend.launch(kernel, (*grid, 1, 1)[:3], kernel.arguments(*values))

    def _filled(self, out: Tensor, name: str, over: int, *values: Value) -> Tensor:
        """Launch with `out` as the first argument, and return it filled."""
        self._run(name, over, out, *values)
        return out

    def _of_length(self, k: int) -> _Chains:
        return self._listed((*range(0, k, CHAIN), k))

    def _listed(self, bounds: tuple[int, ...]) -> _Chains:
        return _Chains(self._put(chains_of(bounds)), (len(bounds) - 1).bit_length())

    def _segments(self, segments: Tensor) -> _Chains:
        return self._latest(tuple(segments.tolist()))

    def _product(self, a: Tensor, b: Tensor, c: Tensor, chains: _Chains, *, add: bool, few: bool) -> None:
        along_a = a.stride(1) == 1 or a.shape[1] <= 1
        along_b = b.stride(1) != 1 and b.shape[1] > 1
        if (along_b and b.stride(0) != 1 and b.shape[0] > 1) or (b.dtype == torch.bfloat16 and not along_a):
            b, along_b = b.float().contiguous(), False
        if (not along_a and a.stride(0) != 1 and a.shape[0] > 1) or (not along_a and along_b):
            a, along_a = a.contiguous(), True
        kernel, held = f"gemm_{'n' if along_a else 't'}{'t' if along_b else 'n'}", "_bf16" * (b.dtype == torch.bfloat16)
        self._launch_product(kernel, held, a, b, None, c, chains, add=add, few=few and along_a and not along_b)

    def _launch_product(
        self, name: str, held: str, a: Tensor, b: Tensor, absmax: Tensor | None, c: Tensor, chains: _Chains,
        *, add: bool, few: bool,
    ) -> None:  # fmt: skip
        rows, columns = c.shape
        large = self._tiles == LARGE
        if self._tiles == BY_SIZE:
            large = _blocks(rows, 128) * _blocks(columns, 128) >= _FILLED
        if few and rows <= _FEW and a.shape[1] > 0 and self._tiles != LARGE:
            at_most = 1 if rows == 1 else 4 if rows <= 4 else 8
            kernel, grid = f"few_{at_most}{held}", (_blocks(columns, 32), min(rows, 1))
        elif large and chains.depth <= _LARGE_DEPTH:
            kernel, grid = f"{name}{held}", (_blocks(columns, 128), _blocks(rows, 128))
        else:
            kernel, grid = f"{name}{held}_small", (_blocks(columns, 64), _blocks(rows, 64))
        self._run(kernel, grid, a, b, absmax, c, chains.at, len(chains.at), add, rows, columns, a.shape[1])
