"""`canonical` on a GPU: the `Kernels` seam over the CUDA kernels, with the bits of `NativeKernels`.

Every tensor lies on the device; index tensors may come from the host. What tile a product takes is a matter of speed,
and shows in no bit. torch holds memory, copies, and computes elementwise steps that are one IEEE rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.cuda import arguments as args
from tinsmith.ops.cuda.chains import chains_of_length, chains_of_segments, depth_of
from tinsmith.ops.cuda.driver import Backend
from tinsmith.ops.cuda.uploads import ForestLayout, Uploads
from tinsmith.ops.extension import module
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import AdamStep, Draws, HeadGains, HeadShape, Nf4Matrix, Recorded, Rope
from tinsmith.ops.mixture import OneByOne
from tinsmith.ops.paging import Pages, Rows
from tinsmith.ops.routing import Routes, Routing
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import BackendError

MOST_HEAD_DIM = 128
"""Widest head of the attention kernels."""
_SMALL, _LARGE, _BY_SIZE = 1, 2, 3
"""Tiles of 64 x 64, of 128 x 128, and whichever fills the GPU: stand in the place of a number of threads."""
_FILLED = 96
"""Blocks of large tiles from which on they are faster than four times as many small ones."""
_LARGE_DEPTH = 8
"""Sums that a large tile can keep waiting (native/cuda/products.cuh)."""
_FEW = 8
"""Rows that are computed by column and not by tile."""

_Chains = tuple[Tensor, int, int]
"""On the device; how many; how many of their sums wait at once."""


def _at(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _blocks(count: int, size: int) -> int:
    return -(-count // size)


class CudaKernels(OneByOne):
    """The kernels of `native/cuda` on a backend: a GPU, or an emulated grid."""

    arithmetic: Arithmetic = Arithmetic.CANONICAL
    reads_bf16: bool = True

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.device: torch.device = backend.device
        self._tiles = _BY_SIZE
        self.use_graphs = True
        """True if what can be recorded is; no bit changes."""
        self._uploads = Uploads(self.device)
        self._by_length: dict[int, _Chains] = {}
        self._by_segments: dict[tuple[int, ...], _Chains] = {}
        self._layout: tuple[Forest, ForestLayout] | None = None

    # Products

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        c = self._new(a.shape[0], b.shape[1]) if into is None else into
        self._product(a.detach(), b.detach(), c, self._chains(a.shape[1]), add=into is not None, few=True)
        return c

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        self._product(a.detach().t(), b.detach(), into, self._segments(segments), add=True, few=False)

    def nf4_product(self, x: Tensor, matrices: Sequence[Nf4Matrix]) -> Tensor:
        rows, inner = x.shape
        y = self._new(rows, sum(matrix.out for matrix in matrices))
        at = 0
        for matrix in matrices:
            part = y[:, at : at + matrix.out]
            at += matrix.out
            chains = self._chains(inner)
            made = self._gemm_args(x.detach(), part, chains, matrix.out, add=False)
            made.B, made.absmax, made.b_rs, made.b_cs = _at(matrix.codes), _at(matrix.absmax), 1, inner
            self._launch_product("products_nf4", "gemm_nt_nf4", "_nf4", made, chains, few=True)
        return y

    def column_chain(self, x: Tensor, y: Tensor | None, segments: Tensor, into: Tensor) -> None:
        chains, count, _ = self._segments(segments)
        rs_y = 0 if y is None else y.stride(0)
        made = args.ColumnArgs(_at(x), _at(y), x.stride(0), rs_y, _at(chains), count, _at(into), x.shape[1])
        self._run("rows", "column_chain", (_blocks(x.shape[1], 64),), 64, made)

    def embed(self, table: Tensor, ids: Tensor) -> Tensor:
        return table.detach()[self._uploads.of(ids)].float()

    def embed_backward(self, ids: Tensor, dy: Tensor, segments: Tensor, into: Tensor) -> None:
        all_ids, cuts = ids.cpu().numpy(), segments.cpu().numpy()
        rows = np.arange(cuts[0], cuts[-1])
        if not len(rows):
            return
        order = rows[np.argsort(all_ids[rows], kind="stable")]
        segment = np.searchsorted(cuts, order, side="right") - 1
        distinct, begins = np.unique(all_ids[order], return_index=True)
        ends = np.append(begins[1:], len(order))
        chains = [
            np.array([[begin, end, 0, 0]], np.int32)
            if segment[begin] == segment[end - 1]
            else chains_of_segments([begin, *(begin + np.searchsorted(segment[begin:end], range(1, len(cuts))))])
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        chain_begin = np.cumsum([0, *map(len, chains)])
        listed = [self._put(x) for x in (order, distinct, chain_begin, np.concatenate(chains))]
        made = args.EmbedArgs(_at(dy), dy.stride(0), *map(_at, listed), _at(into), dy.shape[1])
        self._run("rows", "embed_backward", (len(distinct),), 128, made)

    # Rows

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, gain: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        total = x if delta is None else torch.empty_like(x)
        y, inv_rms = torch.empty_like(x), self._new(x.shape[0])
        into = None if delta is None else _at(total)
        made = args.NormArgs(_at(x), _at(delta), _at(gain), into, _at(y), _at(inv_rms), *x.shape, eps)
        self._run("rows", "add_rms_norm", (_blocks(x.shape[0], 8),), 128, made)
        return total, y, inv_rms

    def rms_norm_backward(
        self, x: Tensor, gain: Tensor, inv_rms: Tensor, d_sum: Tensor | None, dy: Tensor, *, want_xhat: bool
    ) -> tuple[Tensor, Tensor | None]:
        dx, xhat = torch.empty_like(x), torch.empty_like(x) if want_xhat else None
        made = args.NormBackArgs(*map(_at, (x, gain, inv_rms, d_sum, dy, dx, xhat)), *x.shape)
        self._run("rows", "rms_norm_backward", (_blocks(x.shape[0], 8),), 128, made)
        return dx, xhat

    def rotate(self, qkv: Tensor, shape: HeadShape, positions: Tensor, rope: Rope, gains: HeadGains | None) -> Tensor:
        y = torch.empty_like(qkv)
        self._rotate("rotate", qkv, None, y, shape, positions, rope, gains, (None, None))
        return y

    def rotate_backward(
        self,
        qkv: Tensor | None,
        dy: Tensor,
        shape: HeadShape,
        positions: Tensor,
        rope: Rope,
        gains: HeadGains | None,
        *,
        want_gains: bool,
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        dx, n, d = torch.empty_like(dy), dy.shape[0], shape.head_dim
        rows = (self._new(n * shape.heads, d), self._new(n * shape.kv_heads, d)) if want_gains else None
        x = dy if qkv is None else qkv
        self._rotate("rotate_backward", x, dy, dx, shape, positions, rope, gains, rows or (None, None))
        return dx, rows

    def _rotate(
        self, kernel: str, x: Tensor, dy: Tensor | None, y: Tensor, shape: HeadShape, positions: Tensor, rope: Rope,
        gains: HeadGains | None, sums: tuple[Tensor | None, Tensor | None],
    ) -> None:  # fmt: skip
        q, k, eps = (None, None, 0.0) if gains is None else (gains.q, gains.k, gains.eps)
        pointers = (self._uploads.of(positions), rope.cos, rope.sin, q, k, *sums)
        made = args.RotateArgs(
            _at(x), x.stride(0), _at(dy), 0 if dy is None else dy.stride(0), _at(y), y.stride(0), *map(_at, pointers),
            y.shape[0], shape.heads, shape.kv_heads, shape.head_dim, eps,
        )  # fmt: skip
        heads = shape.heads + 2 * shape.kv_heads
        self._run("rows", kernel, (_blocks(y.shape[0] * heads, 8),), 128, made)

    def silu_gate(self, gate_up: Tensor) -> Tensor:
        y = self._new(gate_up.shape[0], gate_up.shape[1] // 2)
        self._run_each("rows", "silu_gate", y.numel(), args.GateArgs(_at(gate_up), None, _at(y), *y.shape))
        return y

    def silu_gate_backward(self, gate_up: Tensor, dy: Tensor) -> Tensor:
        out = torch.empty_like(gate_up)
        made = args.GateArgs(_at(gate_up), _at(dy), _at(out), *dy.shape)
        self._run_each("rows", "silu_gate_backward", dy.numel(), made)
        return out

    def scale_bias(self, y: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
        made = args.ScaleArgs(_at(y), y.stride(0), _at(scale), _at(bias), *y.shape)
        self._run_each("rows", "scale_bias", y.numel(), made)

    # Attention

    def store_keys(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages) -> None:
        table = self._uploads.of(rows.table, torch.int32)
        begin, first = self._uploads.of(rows.row_begin), self._uploads.of(rows.first_pos)
        made = self._store_args(qkv, shape, pages, qkv.shape[0])
        made.row_begin, made.first_pos, made.table = _at(begin), _at(first), _at(table)
        made.table_rs, made.sequences = table.stride(0), len(first)
        self._run_each("attention", "store_rows", qkv.shape[0] * shape.kv_heads * shape.head_dim, made)

    def store_slots(self, qkv: Tensor, shape: HeadShape, forest: Forest, pages: Pages) -> None:
        slots = self._uploads.of(forest.slots)
        made = self._store_args(qkv, shape, pages, len(slots))
        made.row_of_slot = _at(slots)
        self._run_each("attention", "store_slots", len(slots) * shape.kv_heads * shape.head_dim, made)

    def _store_args(self, qkv: Tensor, shape: HeadShape, pages: Pages, count: int) -> args.Arguments:
        return args.StoreArgs(
            qkv=_at(qkv), rs=qkv.stride(0), k_pages=_at(pages.keys), v_pages=_at(pages.values), count=count,
            heads=shape.heads, kv_heads=shape.kv_heads, d=shape.head_dim, d_pad=pages.values.shape[3],
        )  # fmt: skip

    def attention(
        self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        n, sequences = qkv.shape[0], len(rows.first_pos)
        out = self._new(n, shape.heads * shape.head_dim)
        stats = (self._new(n, shape.heads), self._new(n, shape.heads)) if want_stats else None
        begin, first = self._uploads.of(rows.row_begin), self._uploads.of(rows.first_pos)
        table = self._uploads.of(rows.table, torch.int32)
        made = args.AttentionArgs(
            _at(qkv), qkv.stride(0), _at(pages.keys), _at(pages.values), _at(table), table.stride(0), _at(begin),
            _at(first), _at(out), out.stride(0), *((None, None) if stats is None else map(_at, stats)), shape.heads,
            shape.kv_heads, shape.head_dim, pages.values.shape[3], shape.scale,
        )  # fmt: skip
        pairs = self._longest(rows, n) * (shape.heads // shape.kv_heads)
        few = pairs <= 16 if self._tiles == _BY_SIZE else self._tiles == _SMALL
        grid = (_blocks(pairs, 16 if few else 64), sequences, shape.kv_heads)
        self._run("attention", "attention_few" if few else "attention", grid, 256, made)
        return out, stats

    def _longest(self, rows: Rows, n: int) -> int:
        """Rows of the longest sequence, or a bound where only the device knows."""
        if rows.row_begin.device.type != "cpu":
            return n - len(rows.first_pos) + 1
        return int(rows.row_begin.diff().max()) if len(rows.first_pos) else 0

    def attention_backward(
        self, qkv: Tensor, shape: HeadShape, forest: Forest, out: Tensor, d_out: Tensor, stats: tuple[Tensor, Tensor]
    ) -> Tensor:
        d_qkv, n, d = torch.empty_like(qkv), qkv.shape[0], shape.head_dim
        if self._layout is None or self._layout[0] is not forest:
            self._layout = (forest, ForestLayout.of(forest, self.device))
        of = self._layout[1]
        delta = self._new(n, shape.heads)
        k, v = 4 * shape.heads * d, 4 * (shape.heads + shape.kv_heads) * d
        x, dx = qkv.data_ptr(), d_qkv.data_ptr()
        indices = (of.path, of.path_begin, of.tile_row, of.tile_end, of.positions, of.sees_end)
        made = args.AttentionBackArgs(
            x, x + k, x + v, qkv.stride(0), _at(out), _at(d_out), out.stride(0), *map(_at, stats), _at(delta), dx,
            dx + k, dx + v, d_qkv.stride(0), *map(_at, indices), n, shape.heads, shape.kv_heads, d, shape.scale,
        )  # fmt: skip
        self._run("attention", "attention_delta", (_blocks(n * shape.heads, 8),), 128, made)
        self._run("attention", "attention_dq", (len(of.tile_row), shape.heads), 256, made)
        self._run("attention", "attention_dkv", (_blocks(n, 64), shape.kv_heads), 256, made)
        return d_qkv

    # Mixtures

    def route(self, logits: Tensor, routing: Routing) -> Routes:
        rows, experts = logits.shape
        chosen = torch.empty(rows, routing.active, dtype=torch.int64, device=self.device)
        weights = self._new(rows, routing.active)
        made = args.RouteArgs(
            _at(logits), _at(chosen), _at(weights), None, None, rows, experts, routing.active, int(routing.normalised)
        )
        self._run("rows", "route", (rows,), 128, made)
        return Routes(chosen, weights)

    def route_backward(self, logits: Tensor, routing: Routing, routes: Routes, d_weights: Tensor) -> Tensor:
        out = torch.empty_like(logits)
        pointers = (logits, routes.experts, routes.weights, d_weights.contiguous(), out)
        made = args.RouteArgs(*map(_at, pointers), *logits.shape, routing.active, int(routing.normalised))
        self._run("rows", "route_backward", (logits.shape[0],), 128, made)
        return out

    def row_entropies(self, logits: Tensor) -> Tensor:
        out = self._new(logits.shape[0])
        made = args.RouteArgs(logits=_at(logits), out=_at(out), rows=logits.shape[0], E=logits.shape[1])
        self._run("rows", "row_entropies", (logits.shape[0],), 128, made)
        return out

    def row_dots(self, x: Tensor, y: Tensor) -> Tensor:
        out = self._new(x.shape[0])
        made = args.DotsArgs(_at(x), x.stride(0), _at(y), y.stride(0), _at(out), *x.shape)
        self._run("rows", "row_dots", (_blocks(x.shape[0], 8),), 128, made)
        return out

    # Vocabulary

    def row_stats(self, logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        rows, width = logits.shape
        top, log_sum = self._new(rows), self._new(rows)
        made = args.StatsArgs(_at(logits), _at(top), _at(log_sum), width, temperature)
        self._run("vocabulary", "row_stats", (rows,), 256, made)
        return top, log_sum

    def gather_logprobs(
        self, logits: Tensor, targets: Tensor, stats: tuple[Tensor, Tensor], *, rows: Tensor | None = None
    ) -> Tensor:
        wanted, read = self._uploads.of(targets, torch.int32), None if rows is None else self._uploads.of(rows)
        out = self._new(len(wanted))
        pointers = (logits, read, wanted, *stats, out)
        made = args.GatherArgs(*map(_at, pointers), len(wanted), logits.shape[1])
        self._run_each("vocabulary", "gather_logprobs", len(wanted), made)
        return out

    def logprob_backward(
        self, logits: Tensor, reads: Tensor, targets: Tensor, grads: Tensor, stats: tuple[Tensor, Tensor]
    ) -> Tensor:
        at, wanted = self._uploads.of(reads), self._uploads.of(targets, torch.int32)
        made = args.LogprobBackArgs(*map(_at, (logits, at, wanted, grads, *stats, logits)), logits.shape[1])
        self._run("vocabulary", "logprob_backward", (logits.shape[0],), 256, made)
        return logits

    def choose(self, logits: Tensor, draws: Draws) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        vocab = logits.shape[1]
        ranked = ((draws.top_ks > 0) & (draws.top_ks < vocab)) | (draws.top_ps < 1)
        ranked &= draws.temperatures != 0
        tokens, logprobs = np.empty(len(ranked), np.int32), np.empty(len(ranked), np.float32)
        for some in (np.flatnonzero(~ranked), np.flatnonzero(ranked)):
            if not len(some):
                continue
            wide = (draws.rows, draws.seeds, draws.samples, draws.positions, draws.top_ks, draws.top_ps)
            parts = [each[some].view(np.uint8) for each in (*wide, draws.temperatures)]
            given = self._put(np.concatenate(parts))  # one copy there, and one back
            order = self._ranked(logits[given[: 8 * len(some)].view(torch.int64)]) if ranked[some[0]] else None
            found = self._new(2, len(some))
            arrays = [given.data_ptr() + begin for begin in np.cumsum([0, *map(len, parts[:-1])]).tolist()]
            made = args.ChooseArgs(_at(logits), *arrays[:4], arrays[6], *arrays[4:6], *map(_at, (order, *found)), vocab)
            self._run("vocabulary", "choose_row", (len(some),), 256, made)
            both = found.cpu().numpy()
            tokens[some], logprobs[some] = both[0].view(np.int32), both[1]
        return tokens, logprobs

    def top_logprobs(
        self, logits: Tensor, rows: NDArray[np.int64], temperatures: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        read, heat = self._put(rows), self._put(temperatures)
        tokens = self._ranked(logits[read])[:, :k].int().contiguous()
        out = self._new(len(rows), k)
        made = args.RankedArgs(*map(_at, (logits, read, heat, tokens, out)), logits.shape[1], k)
        self._run("vocabulary", "ranked_logprobs", (len(rows),), 256, made)
        return tokens.cpu().numpy(), out.cpu().numpy()

    @staticmethod
    def _ranked(logits: Tensor) -> Tensor:
        """Tokens of each row by descending logit, ties by lower id; -0 is +0 to every sort once 0 is added."""
        return torch.sort(logits + 0.0, dim=1, descending=True, stable=True).indices

    # State

    def adam(self, weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: AdamStep) -> None:
        grad = grad.contiguous()
        made = args.AdamArgs(
            *map(_at, (weight, grad, m, v)), weight.numel(), step.learning_rate, step.beta1, step.beta2, step.eps,
            step.grad_scale, 1.0 - step.beta1, 1.0 - step.beta2, 1.0 - step.learning_rate * step.weight_decay,
            step.bias1, step.bias2,
        )  # fmt: skip
        self._run_each("state", "adam", weight.numel(), made)

    def sum_squares(self, x: Tensor) -> float:
        out = torch.empty(1, dtype=torch.float64, device=self.device)
        self._run("state", "sum_squares", (1,), 16, args.SquaresArgs(_at(x), _at(out), x.numel()))
        return float(out)

    def finite(self, tensors: Sequence[Tensor]) -> bool:
        bad = torch.zeros(1, dtype=torch.int32, device=self.device)
        for x in tensors:
            self._run_each("state", "not_finite", x.numel(), args.FiniteArgs(_at(x), _at(bad), x.numel()))
        return not int(bad)

    def nf4_transposed(self, codes: Tensor, absmax: Tensor, out: int, in_: int) -> Tensor:
        wt = self._new(in_, out)
        made = args.Nf4Args(_at(codes), _at(absmax), _at(wt), out, in_)
        self._run_each("state", "nf4_transposed", out * in_, made)
        return wt

    def rope(self, frequencies: NDArray[np.float32], positions: int) -> Rope:
        """In fp64 on the host, once for a model."""
        if 2 * len(frequencies) > MOST_HEAD_DIM:
            raise BackendError(f"heads of {2 * len(frequencies)} are too wide for a GPU: at most {MOST_HEAD_DIM}")
        cos, sin = (np.empty((positions, len(frequencies)), np.float32) for _ in range(2))
        module().rope_table(frequencies, cos, sin)
        return Rope(self._put(cos), self._put(sin))

    def identity(self) -> dict[str, str]:
        return self.backend.identity()

    def free_bytes(self) -> int | None:
        return self.backend.free_bytes()

    def recorded(self, compute: Callable[[], Tensor]) -> Recorded | None:
        return self.backend.record(compute) if self.use_graphs else None

    def threads(self) -> int:
        """Return the tiles in use: 1 small ones, 2 large ones, 3 by size."""
        return self._tiles

    def set_threads(self, count: int) -> None:
        """Use these tiles; no bit changes."""
        self._tiles = min(count, _BY_SIZE)

    # Launches

    def _new(self, *shape: int) -> Tensor:
        return torch.empty(*shape, device=self.device)

    def _put(self, x: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(x)).to(self.device)

    def _run(self, program: str, kernel: str, grid: tuple[int, ...], threads: int, made: args.Arguments) -> None:
        if all(grid):
            self.backend.launch(program, kernel, grid, threads, made)

    def _run_each(self, program: str, kernel: str, count: int, made: args.Arguments) -> None:
        """A thread for each element."""
        self._run(program, kernel, (_blocks(count, 256),), 256, made)

    def _chains(self, k: int) -> _Chains:
        if k not in self._by_length:
            self._by_length[k] = self._listed(chains_of_length(k))
        return self._by_length[k]

    def _segments(self, segments: Tensor) -> _Chains:
        bounds = tuple(segments.tolist())
        if bounds not in self._by_segments:
            if len(self._by_segments) > 64:
                self._by_segments.clear()
            some = any(begin < end for begin, end in pairwise(bounds))
            listed = chains_of_segments(bounds) if some else np.zeros((0, 4), np.int32)
            self._by_segments[bounds] = self._listed(listed)
        return self._by_segments[bounds]

    def _listed(self, chains: NDArray[np.int32]) -> _Chains:
        return self._put(chains), len(chains), depth_of(chains)

    def _product(self, a: Tensor, b: Tensor, c: Tensor, chains: _Chains, *, add: bool, few: bool) -> None:
        along_a = a.stride(1) == 1 or a.shape[1] <= 1
        along_b = b.stride(1) != 1 and b.shape[1] > 1
        if (along_b and b.stride(0) != 1 and b.shape[0] > 1) or (b.dtype == torch.bfloat16 and not along_a):
            b, along_b = b.float().contiguous(), False
        if (not along_a and a.stride(0) != 1 and a.shape[0] > 1) or (not along_a and along_b):
            a, along_a = a.contiguous(), True
        held = "_bf16" if b.dtype == torch.bfloat16 else ""
        made = self._gemm_args(a, c, chains, b.shape[1], add=add)
        made.B, made.b_rs, made.b_cs = _at(b), b.stride(0), b.stride(1)
        kernel = f"gemm_{'n' if along_a else 't'}{'t' if along_b else 'n'}{held}"
        program = f"products{held}" if held or kernel == "gemm_nn" else "gradients"
        self._launch_product(program, kernel, held, made, chains, few=few and along_a and not along_b)

    def _gemm_args(self, a: Tensor, c: Tensor, chains: _Chains, n: int, *, add: bool) -> args.Arguments:
        return args.GemmArgs(
            M=a.shape[0], N=n, K=a.shape[1], A=_at(a), a_rs=a.stride(0), a_cs=a.stride(1), C=_at(c), c_rs=c.stride(0),
            chains=_at(chains[0]), num_chains=chains[1], add=int(add),
        )  # fmt: skip

    def _launch_product(
        self, program: str, kernel: str, held: str, made: args.Arguments, chains: _Chains, *, few: bool
    ) -> None:
        rows, columns = made.M, made.N
        if few and rows <= _FEW and made.K > 0 and self._tiles != _LARGE:
            name = "few_1" if rows == 1 else "few_4" if rows <= 4 else "few_8"
            self._run(program, name + held, (_blocks(columns, 32), min(rows, 1)), 256, made)
            return
        large = _blocks(rows, 128) * _blocks(columns, 128) >= _FILLED if self._tiles == _BY_SIZE else False
        if (large or self._tiles == _LARGE) and chains[2] <= _LARGE_DEPTH:
            self._run(program, kernel, (_blocks(columns, 128), _blocks(rows, 128)), 256, made)
        else:
            self._run(program, f"{kernel}_small", (_blocks(columns, 64), _blocks(rows, 64)), 256, made)
