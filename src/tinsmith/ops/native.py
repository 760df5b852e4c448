"""`canonical` on CPU: the native kernels behind the `Kernels` interface.

Tensors cross as zero-copy DLPack/buffer views. torch only allocates memory here, and computes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tinsmith.ops.experts import ExpertParts, MixtureActivations, MixtureRows, Mlp
from tinsmith.ops.extension import native, require
from tinsmith.ops.forest import Forest
from tinsmith.ops.functions import Weight
from tinsmith.ops.kernels import (
    AdamStep,
    Drawn,
    Draws,
    Floats,
    HeadShape,
    Kernels,
    Pair,
    Recorded,
    Rope,
    Turn,
    WithPair,
)
from tinsmith.ops.linear import Linear, LowRank
from tinsmith.ops.packed import Packed
from tinsmith.ops.paging import Pages, Rows
from tinsmith.ops.routing import Routes, Routing
from tinsmith.types.arithmetic import Arithmetic

if TYPE_CHECKING:
    from tinsmith._native import Grads, In, Low, Matrices, MixtureArrays


_WITHOUT_VALUES: Final = frozenset(("empty", "empty_like", "numpy", "__get__", "__len__", "dim", "size", "stride"))
"""Functions of torch that allocate memory or query it."""
_VIEWS: Final = frozenset(("detach", "float", "t", "view", "__getitem__"))
"""Functions of torch that return a view, or else compute."""


def _view(x: Tensor) -> NDArray[np.generic]:
    return x.detach().numpy() if x.requires_grad else x.numpy()


def _maybe(x: Tensor | None) -> NDArray[np.generic] | None:
    return None if x is None else _view(x)


def _held(linears: Iterable[Linear]) -> Matrices:
    bases = [linear.base for linear in linears]
    if isinstance(bases[0][0], Packed):
        return native.Matrices([[one.held for one in base if isinstance(one, Packed)] for base in bases])
    return native.Matrices([_view(base[0].value) for base in bases if isinstance(base[0], Weight)])


@dataclass(frozen=True, slots=True)
class _LowView:
    """Adapter part in the extension's form, and the tensors that it was made from."""

    tensors: tuple[Tensor | None, ...]
    arrays: Low

    def still(self, part: LowRank) -> bool:
        """True if the part still has the same tensors, whose memory never moves."""
        return all(map(is_, self.tensors, _tensors(part)))


def _tensors(part: LowRank) -> tuple[Tensor | None, ...]:
    return part.a.value, part.gain, part.norm, *(b.value for b in part.b)


def _low_view(part: LowRank) -> _LowView:
    a, gain, norm, *bs = tensors = _tensors(part)
    assert a is not None
    low = (
        _view(a),
        [_view(b) for b in bs if b is not None],
        list(part.columns),
        part.scaling,
        _maybe(gain),
        _maybe(norm),
    )
    return _LowView(tensors, low)


def _turn(turn: Turn) -> tuple[In, In, In, int, int, In | None, In | None, float]:
    gains, rope = turn.gains, turn.rope
    q, k, eps = (None, None, 0.0) if gains is None else (_view(gains.q), _view(gains.k), gains.eps)
    return _view(turn.positions), _view(rope.cos), _view(rope.sin), turn.shape.heads, turn.shape.kv_heads, q, k, eps


def _pairs(mix: MixtureRows) -> tuple[In, In, In]:
    return _view(mix.deal.places), np.array(mix.deal.bounds, np.int64), _view(mix.routes.weights)


def _activations(saved: MixtureActivations) -> MixtureArrays:
    return cast("MixtureArrays", tuple(map(_maybe, saved.rooms)))


def _by_expert(mix: MixtureRows) -> list[ExpertParts]:
    """Return the parts on every expert; none for experts that no row takes."""
    found: list[ExpertParts] = [(None, None)] * len(mix.experts)
    for e, _, _ in mix.deal.taken:
        found[e] = mix.parts(e)
    return found


def _grads(linear: Linear, low: LowRank | None) -> Grads:
    first = linear.base[0]
    base, is_first = first.room() if isinstance(first, Weight) and first.trained else (None, False)
    if low is None:
        return _maybe(base), is_first, None, [], None
    magnitude = None if low.magnitude is None else low.magnitude.grad
    return _maybe(base), is_first, _maybe(low.a.grad), [_maybe(b.grad) for b in low.b], _maybe(magnitude)


class _NotNative(TorchFunctionMode):
    """Detector of operations that torch computes by itself, which a recorded step would miss."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        result, name = func(*args, **(kwargs or {})), getattr(func, "__name__", "")
        is_view = name in _VIEWS and isinstance(result, Tensor) and _memory(result) == _memory(args[0])
        self.found |= not is_view and name not in _WITHOUT_VALUES
        return result


def _memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


class NativeKernels(Kernels):
    """Every floating-point reduction is one chain in a logical order; see `docs/ops.md`."""

    arithmetic: Arithmetic = Arithmetic.CANONICAL
    device: torch.device = torch.device("cpu")
    reads_packed: bool = True
    pads_steps: bool = False

    def __init__(self) -> None:
        require()
        self._held: WeakKeyDictionary[Mlp, tuple[Matrices, Matrices]] = WeakKeyDictionary()
        self._parts: WeakKeyDictionary[LowRank, _LowView] = WeakKeyDictionary()

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        c = torch.empty(a.shape[0], b.shape[1]) if into is None else into
        native.gemm(_view(a), _view(b.float()), c.numpy(), into is not None)
        return c

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        native.gemm(_view(a).T, _view(b), _view(into), True, _view(segments))

    def column_chain(self, x: Tensor, y: Tensor | None, segments: Tensor, into: Tensor) -> None:
        native.column_chain(_view(x), _maybe(y), _view(segments), _view(into))

    def embed(self, table: Tensor, ids: Tensor) -> Tensor:
        if table.dtype != torch.float32:
            return table.detach()[ids].float()
        out = torch.empty(len(ids), table.shape[1])
        native.embed(_view(table), _view(ids), out.numpy())
        return out

    def embed_backward(self, ids: Tensor, dy: Tensor, segments: Tensor, into: Tensor) -> None:
        native.embed_backward(_view(ids), _view(dy), _view(segments), _view(into))

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, gain: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        total = x if delta is None else torch.empty_like(x)
        y = torch.empty_like(x)
        inv_rms = torch.empty(x.shape[0])
        native.add_rms_norm(
            _view(x),
            _maybe(delta),
            _view(gain),
            eps,
            None if delta is None else total.numpy(),
            y.numpy(),
            inv_rms.numpy(),
        )
        return total, y, inv_rms

    def rms_norm_backward(
        self, x: Tensor, gain: Tensor, inv_rms: Tensor, d_sum: Tensor | None, dy: Tensor, *, want_xhat: bool
    ) -> tuple[Tensor, Tensor | None]:
        dx = torch.empty_like(x)
        xhat = torch.empty_like(x) if want_xhat else None
        native.rms_norm_backward(
            _view(x), _view(gain), _view(inv_rms), _maybe(d_sum), _view(dy), dx.numpy(), _maybe(xhat)
        )
        return dx, xhat

    def rotate(self, qkv: Tensor, turn: Turn) -> Tensor:
        y = torch.empty_like(qkv)
        native.rotate(_view(qkv), y.numpy(), *_turn(turn))
        return y

    def rotate_backward(self, qkv: Tensor | None, dy: Tensor, turn: Turn, *, want_gains: bool) -> WithPair:
        dx = torch.empty_like(dy)
        rows: tuple[Tensor, Tensor] | None = None
        if want_gains:
            n, shape = dy.shape[0], turn.shape
            rows = (torch.empty(n * shape.heads, shape.head_dim), torch.empty(n * shape.kv_heads, shape.head_dim))
        q, k = (None, None) if rows is None else (rows[0].numpy(), rows[1].numpy())
        native.rotate_backward(_view(dy if qkv is None else qkv), _view(dy), dx.numpy(), *_turn(turn), q, k)
        return dx, rows

    def store_keys(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages) -> None:
        native.store_keys(
            _view(qkv), shape.heads, shape.kv_heads, _view(rows.table), _view(rows.row_begin), _view(rows.first_pos),
            _view(pages.keys), _view(pages.values),
        )  # fmt: skip

    def store_slots(self, qkv: Tensor, shape: HeadShape, forest: Forest, pages: Pages) -> None:
        native.store_slots(
            _view(qkv), shape.heads, shape.kv_heads, _view(forest.slots), _view(pages.keys), _view(pages.values),
        )  # fmt: skip

    def attention(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool) -> WithPair:
        n = qkv.shape[0]
        out = torch.empty(n, shape.heads * shape.head_dim)
        stats = (torch.empty(n, shape.heads), torch.empty(n, shape.heads)) if want_stats else None
        native.attention(
            _view(qkv), shape.heads, shape.kv_heads, _view(pages.keys), _view(pages.values), _view(rows.table),
            _view(rows.row_begin), _view(rows.first_pos), shape.scale, out.numpy(),
            None if stats is None else stats[0].numpy(), None if stats is None else stats[1].numpy(),
        )  # fmt: skip
        return out, stats

    def attention_backward(
        self, qkv: Tensor, shape: HeadShape, forest: Forest, out: Tensor, d_out: Tensor, stats: Pair
    ) -> Tensor:
        d_qkv = torch.empty_like(qkv)
        native.attention_backward(
            _view(qkv), shape.heads, shape.kv_heads, _view(out), _view(d_out), _view(stats[0]), _view(stats[1]),
            _view(forest.rows.row_begin), _view(forest.rows.first_pos), _view(forest.unit_nodes), shape.scale,
            d_qkv.numpy(),
        )  # fmt: skip
        return d_qkv

    def silu_gate(self, gate_up: Tensor) -> Tensor:
        y = torch.empty(gate_up.shape[0], gate_up.shape[1] // 2)
        native.silu_gate(_view(gate_up), y.numpy())
        return y

    def silu_gate_backward(self, gate_up: Tensor, dy: Tensor) -> Tensor:
        d_gate_up = torch.empty_like(gate_up)
        native.silu_gate_backward(_view(gate_up), _view(dy), d_gate_up.numpy())
        return d_gate_up

    def route(self, logits: Tensor, routing: Routing) -> Routes:
        experts = torch.empty(logits.shape[0], routing.active, dtype=torch.int64)
        weights = torch.empty(logits.shape[0], routing.active)
        native.route(_view(logits), routing.normalised, experts.numpy(), weights.numpy())
        return Routes(experts, weights)

    def route_backward(self, logits: Tensor, routing: Routing, routes: Routes, d_weights: Tensor) -> Tensor:
        d_logits = torch.empty_like(logits)
        native.route_backward(
            _view(logits), routing.normalised, _view(routes.experts), _view(routes.weights), _view(d_weights),
            d_logits.numpy(),
        )  # fmt: skip
        return d_logits

    def mixture(self, x: Tensor, mix: MixtureRows) -> Tensor:
        y, lows = torch.empty_like(x), self._lows(_by_expert(mix))
        native.mixture(_view(x), *_pairs(mix), *self._matrices(mix.experts), *lows, y.numpy())
        return y

    def mixture_forward(self, x: Tensor, mix: MixtureRows) -> tuple[Tensor, MixtureActivations]:
        y, lows, saved = torch.empty_like(x), self._lows(_by_expert(mix)), MixtureActivations.empty(mix, x.device)
        native.mixture(_view(x), *_pairs(mix), *self._matrices(mix.experts), *lows, y.numpy(), _activations(saved))
        return y, saved

    def mixture_backward(
        self, dy: Tensor, x: Tensor, mix: MixtureRows, segments: Tensor, saved: MixtureActivations
    ) -> tuple[Tensor, Tensor]:
        dx, d_weights = torch.empty_like(dy), torch.empty_like(mix.routes.weights)
        own = _by_expert(mix)
        grads_up: list[Grads] = [(None, False, None, [], None)] * len(own)
        grads_down = grads_up.copy()
        for e, _, _ in mix.deal.taken:
            grads_up[e] = _grads(mix.experts[e].gate_up, own[e][0])
            grads_down[e] = _grads(mix.experts[e].down, own[e][1])
        native.mixture_backward(
            _view(dy), _view(x), *_pairs(mix), _view(segments), *self._matrices(mix.experts), *self._lows(own),
            grads_up, grads_down, _activations(saved), dx.numpy(), d_weights.numpy(),
        )  # fmt: skip
        return dx, d_weights

    def _lows(self, parts: Sequence[ExpertParts]) -> tuple[list[Low | None], list[Low | None]]:
        """Return an adapter's parts on gate_up and on down of every expert, cached for each set of tensors."""
        return [self._low(up) for up, _ in parts], [self._low(down) for _, down in parts]

    def _low(self, part: LowRank | None) -> Low | None:
        if part is None:
            return None
        found = self._parts.get(part)
        if found is None or not found.still(part):
            found = self._parts[part] = _low_view(part)
        return found.arrays

    def _matrices(self, experts: Sequence[Mlp]) -> tuple[Matrices, Matrices]:
        """Return the weights of all experts, cached for each mixture: a weight's memory never moves."""
        found = self._held.get(experts[0])
        if found is None:
            found = (_held(one.gate_up for one in experts), _held(one.down for one in experts))
            self._held[experts[0]] = found
        return found

    def row_entropies(self, logits: Tensor) -> Tensor:
        out = torch.empty(logits.shape[0])
        native.row_entropies(_view(logits), out.numpy())
        return out

    def row_dots(self, x: Tensor, y: Tensor) -> Tensor:
        out = torch.empty(x.shape[0])
        native.row_dots(_view(x), _view(y), out.numpy())
        return out

    def row_stats(self, logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        largest, log_sum = torch.empty(logits.shape[0]), torch.empty(logits.shape[0])
        native.row_stats(_view(logits), temperature, largest.numpy(), log_sum.numpy())
        return largest, log_sum

    def gather_logprobs(self, logits: Tensor, targets: Tensor, stats: Pair, *, rows: Tensor | None = None) -> Tensor:
        read = torch.arange(logits.shape[0]) if rows is None else rows
        out = torch.empty(len(read))
        native.gather_logprobs(
            _view(logits), _view(read), _view(targets), 1.0, _view(stats[0]), _view(stats[1]), out.numpy(),
        )  # fmt: skip
        return out

    def logprob_backward(self, logits: Tensor, reads: Tensor, targets: Tensor, grads: Tensor, stats: Pair) -> Tensor:
        native.logprob_backward(
            _view(logits), _view(reads), _view(targets), _view(grads), _view(stats[0]), _view(stats[1]), _view(logits),
        )  # fmt: skip
        return logits

    def scale_bias(self, y: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
        native.scale_bias(_view(y), _maybe(scale), _maybe(bias))

    def choose(self, logits: Tensor, draws: Draws) -> Drawn:
        tokens = np.empty(len(draws.rows), np.int32)
        logprobs = np.empty(len(draws.rows), np.float32)
        native.choose(
            _view(logits), draws.rows, draws.seeds, draws.samples, draws.positions, draws.temperatures, draws.top_ks,
            draws.top_ps, tokens, logprobs,
        )  # fmt: skip
        return tokens, logprobs

    def top_logprobs(self, logits: Tensor, rows: NDArray[np.int64], temperatures: Floats, k: int) -> Drawn:
        tokens = np.empty((len(rows), k), np.int32)
        logprobs = np.empty((len(rows), k), np.float32)
        native.top_logprobs(_view(logits), rows, temperatures, k, tokens, logprobs)
        return tokens, logprobs

    def adam(self, weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: AdamStep) -> None:
        native.adam(
            _view(weight), _view(grad), _view(m), _view(v), step.learning_rate, step.beta1, step.beta2, step.eps,
            step.weight_decay, step.grad_scale, step.bias1, step.bias2,
        )  # fmt: skip

    def sum_squares(self, x: Tensor) -> float:
        return native.sum_squares(_view(x))

    def finite(self, tensors: Sequence[Tensor]) -> bool:
        # By the extremes of a block, each of which is NaN if any value is; the block stays in a cache for the second.
        block, rows = 1 << 17, (_view(x).reshape(-1) for x in tensors)
        parts = (row[i : i + block] for row in rows for i in range(0, row.size, block))
        return all(math.isfinite(part.max()) and math.isfinite(part.min()) for part in parts)

    def nf4_transposed(self, codes: Tensor, absmax: Tensor, out: int, in_: int) -> Tensor:
        wt = torch.empty(in_, out)
        native.nf4_dequantise_transposed(_view(codes), _view(absmax), out, in_, wt.numpy())
        return wt

    def rope(self, frequencies: NDArray[np.float32], positions: int) -> Rope:
        cos, sin = (torch.empty(positions, len(frequencies)), torch.empty(positions, len(frequencies)))
        native.rope_table(frequencies, cos.numpy(), sin.numpy())
        return Rope(cos, sin)

    def recorded(self, compute: Callable[[], Tensor]) -> Recorded | None:
        tape, others = native.Tape(), _NotNative()
        with others:
            tape.begin()
            try:
                out = compute()
            finally:
                is_complete = tape.end()
        return Recorded(out, tape.replay) if is_complete and not others.found else None

    def threads(self) -> int:
        return native.num_threads()

    def set_threads(self, count: int) -> None:
        native.set_num_threads(count)
