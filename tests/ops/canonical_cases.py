"""Parts the suites of the native kernels share: bits, exact fused multiply-adds, and one run of all.

`compute` calls every method once and does no arithmetic of its own, so that its outputs are the
kernels' whatever state the calling thread is in.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops import nf4
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import AdamStep, Draws, HeadGains, HeadShape, Kernels, Turn
from tinsmith.ops.linear import Nf4Base
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.paging import Pages
from tinsmith.ops.routing import Routing

Float32s = NDArray[np.float32]


def normal(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    draws = np.random.default_rng(seed).standard_normal(shape) * scale
    return torch.from_numpy(draws.astype(np.float32))


def bits(x: Tensor | NDArray[np.generic]) -> NDArray[np.generic]:
    """Floats as integers, with one zero; integers as they are."""
    array = x.detach().cpu().numpy() if isinstance(x, Tensor) else x
    if array.dtype == np.float32:
        return np.where(array == 0, np.float32(0), array).view(np.int32)
    if array.dtype == np.float64:
        return np.where(array == 0, 0.0, array).view(np.int64)
    return array


def assert_same_bits(
    actual: Tensor | NDArray[np.generic], expected: Tensor | NDArray[np.generic], what: str = ""
) -> None:
    a, b = bits(actual), bits(expected)
    assert a.shape == b.shape, what
    unequal = int(np.count_nonzero(a != b))
    assert unequal == 0, f"{what}: {unequal} of {a.size} elements differ"


def assert_same_outputs(actual: "Outputs", expected: "Outputs") -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        assert_same_bits(actual[name], value, name)


def fma32(a: Float32s, b: Float32s, c: Float32s) -> Float32s:
    """Return a * b + c, rounded once.

    The product is exact in fp64. Its sum with c is rounded there to odd, so that the last rounding,
    to 24 bits, is that of the exact value. Source: Boldo and Melquiond, "Emulation of FMA and
    correctly rounded sums: proved algorithms using rounding to odd", IEEE ToC 2008.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    c64 = c.astype(np.float64)
    total = product + c64
    from_c = total - product
    lost = (product - (total - from_c)) + (c64 - from_c)
    even = (total.view(np.int64) & 1) == 0
    beside = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return np.where((lost != 0) & even, beside, total).astype(np.float32)


def product_chain(a: Float32s, b: Float32s, start: Float32s | None = None) -> Float32s:
    """a [M, K] . b [K, N]: per element one chain of fused steps over k, ascending."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32) if start is None else start.copy()
    for k in range(a.shape[1]):
        total = fma32(a[:, k, None], b[None, k], total)
    return total


LONGEST_CHAIN = 128
"""Terms of k in one chain of a product (native/table.hpp)."""


def product(a: Float32s, b: Float32s) -> Float32s:
    """a [M, K] . b [K, N]: a chain for every LONGEST_CHAIN of k, added in pairs, then the pairs in pairs."""
    cuts = range(0, max(a.shape[1], 1), LONGEST_CHAIN)
    sums = [product_chain(a[:, i : i + LONGEST_CHAIN], b[i : i + LONGEST_CHAIN]) for i in cuts]
    while len(sums) > 1:
        sums = [sums[i] + sums[i + 1] if i + 1 < len(sums) else sums[i] for i in range(0, len(sums), 2)]
    return sums[0]


def lane_sum(lanes: Float32s) -> Float32s:
    """The last axis (16) by halving: 8, 4, 2, 1."""
    for half in (8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half : 2 * half]
    return lanes[..., 0]


Outputs = dict[str, Tensor | NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Operands of one run of every kernel."""

    shape: HeadShape
    forest: Forest
    x: Tensor
    y: Tensor
    gain: Tensor
    weight: Tensor
    gate_up: Tensor
    qkv: Tensor
    d_out: Tensor
    head_gains: HeadGains
    frequencies: Float32s
    logits: Tensor
    targets: Tensor
    ids: Tensor
    draws: Draws
    flat: tuple[Tensor, Tensor, Tensor, Tensor]
    coded: nf4.Nf4Tensor


def make_inputs(shape: HeadShape, lengths: list[int], hidden: int, vocab: int, *, scale: float = 1.0) -> Inputs:
    """Random operands; activations and gradients times `scale`."""
    n, d = sum(lengths), shape.head_dim
    rng = np.random.default_rng(99)
    width = (shape.heads + 2 * shape.kv_heads) * d
    count = min(n, 24)
    draws = Draws(
        rows=rng.integers(0, n, count),
        seeds=rng.integers(0, 1 << 63, count).astype(np.uint64),
        samples=np.arange(count),
        positions=np.arange(count) * 7,
        temperatures=rng.choice(np.array([0.0, 0.6, 1.0, 2.0], np.float32), count),
        top_ks=rng.choice(np.array([0, 0, 3, 50]), count),
        top_ps=rng.choice(np.array([1.0, 1.0, 0.9, 0.5]), count),
    )
    moments = normal(20, n, hidden, scale=scale), normal(21, n, hidden, scale=scale * scale).abs()
    return Inputs(
        shape=shape,
        forest=Forest.whole(lengths),
        x=normal(1, n, hidden, scale=scale),
        y=normal(2, n, hidden, scale=scale),
        gain=normal(3, hidden),
        weight=normal(4, hidden, 2 * hidden, scale=scale),
        gate_up=normal(5, n, 2 * hidden, scale=3 * scale),
        qkv=normal(6, n, width, scale=scale),
        d_out=normal(7, n, shape.heads * d, scale=scale),
        head_gains=HeadGains(q=normal(8, d), k=normal(9, d), eps=1e-6),
        frequencies=(1e4 ** (-np.arange(d // 2) / (d // 2))).astype(np.float32),
        logits=normal(10, n, vocab, scale=3),
        targets=torch.from_numpy(rng.integers(0, vocab, n).astype(np.int32)),
        ids=torch.from_numpy(rng.integers(0, 9, n)),
        draws=draws,
        flat=(normal(22, n, hidden), normal(23, n, hidden, scale=scale), *moments),
        coded=nf4.quantise(normal(11, n, hidden).numpy()),
    )


def moved(i: Inputs, device: torch.device) -> Inputs:
    """The same operands on a device; what only the host reads stays."""
    names = ("x", "y", "gain", "weight", "gate_up", "qkv", "d_out", "logits")
    gains = HeadGains(q=i.head_gains.q.to(device), k=i.head_gains.k.to(device), eps=i.head_gains.eps)
    one, two, three, four = (x.to(device) for x in i.flat)
    tensors = {name: getattr(i, name).to(device) for name in names}
    return replace(i, head_gains=gains, flat=(one, two, three, four), **tensors)


def compute(i: Inputs, kernels: Kernels | None = None) -> Outputs:
    """Every method of canonical kernels (the native ones), once or in each of its forms."""
    out: Outputs = {}
    for part in (_products, _rows, _heads, _logprobs, _mixtures, _state):
        part(kernels or NativeKernels(), i, out)
    return out


def _products(k: Kernels, i: Inputs, out: Outputs) -> None:
    segments = i.forest.units
    out["gemm"] = k.gemm(i.x, i.weight)
    out["gemm, b transposed"] = k.gemm(i.gate_up, i.weight.t())
    out["gemm, bf16"] = k.gemm(i.x, i.weight.bfloat16())
    out["gemm, bf16 transposed"] = k.gemm(i.gate_up, i.weight.bfloat16().t())
    out["gemm, into"] = k.gemm(i.x, i.weight, into=i.gate_up.clone())
    out["grad_gemm"] = i.weight.clone()
    k.grad_gemm(i.x, i.gate_up, segments, out["grad_gemm"])
    out["column_chain"] = i.gain.clone()
    k.column_chain(i.x, None, segments, out["column_chain"])
    out["column_chain of products"] = torch.zeros_like(i.gate_up[0])
    k.column_chain(i.gate_up, i.gate_up, segments, out["column_chain of products"])
    out["embed"] = k.embed(i.weight, i.ids)
    out["embed_backward"] = i.weight[:9].clone()
    k.embed_backward(i.ids, i.gate_up, segments, out["embed_backward"])


def _rows(k: Kernels, i: Inputs, out: Outputs) -> None:
    total, out["norm"], inv_rms = k.add_rms_norm(i.x, i.y, i.gain, 1e-5)
    out["sum"], out["1 / rms"] = total, inv_rms
    dx, xhat = k.rms_norm_backward(total, i.gain, inv_rms, i.y, i.x, want_xhat=True)
    assert xhat is not None
    out["norm backward"], out["normalised"] = dx, xhat
    out["gate"] = k.silu_gate(i.gate_up)
    out["gate backward"] = k.silu_gate_backward(i.gate_up, i.x)
    out["scale_bias"] = i.gate_up.clone()
    k.scale_bias(out["scale_bias"], i.weight[0], i.weight[1])


def _heads(k: Kernels, i: Inputs, out: Outputs) -> None:
    rows = i.forest.rows
    rope = k.rope(i.frequencies, int(rows.positions.max()) + 1)
    out["cos"], out["sin"] = rope.cos, rope.sin
    for name, gains in (("", None), (" with gains", i.head_gains)):
        turn = Turn(i.shape, rows.positions, rope, gains)
        out["rotate" + name] = k.rotate(i.qkv, turn)
        dx, sums = k.rotate_backward(i.qkv, i.qkv, turn, want_gains=gains is not None)
        out["rotate backward" + name] = dx
        if sums is not None:
            out["q gain rows"], out["k gain rows"] = sums
    pages = Pages.allocate(i.forest.num_pages, i.shape.kv_heads, i.shape.head_dim, k.device)
    k.store_keys(i.qkv, i.shape, rows, pages)
    out["keys"], out["values"] = pages.keys, pages.values
    attended, stats = k.attention(i.qkv, i.shape, rows, pages, want_stats=True)
    out["attention"], out["largest score"], out["score sum"] = attended, *stats
    out["attention backward"] = k.attention_backward(i.qkv, i.shape, i.forest, attended, i.d_out, stats)


def _logprobs(k: Kernels, i: Inputs, out: Outputs) -> None:
    stats = k.row_stats(i.logits, 1.0)
    out["largest logit"], out["log sum"] = stats
    out["largest at 0.7"], out["log sum at 0.7"] = k.row_stats(i.logits, 0.7)
    out["logprobs"] = k.gather_logprobs(i.logits, i.targets, stats)
    some = torch.arange(0, len(i.logits), 2)
    out["logprob backward"] = k.logprob_backward(
        i.logits[some],
        torch.arange(len(some) + 1),
        i.targets[some],
        i.x[some, 0].contiguous(),
        (stats[0][some], stats[1][some]),
    )
    out["tokens"], out["token logprobs"] = k.choose(i.logits, i.draws)
    tied = (i.logits * 2).round() / 2
    tied[:, ::3], tied[:, 1::6], tied[i.draws.rows[0], 2] = -torch.inf, -0.0, torch.nan
    out["tokens of ties"], logprobs = k.choose(tied, i.draws)
    out["logprobs of ties"] = np.nan_to_num(logprobs, nan=7.0)  # of a row that is no distribution
    out["top tokens"], out["top logprobs"] = k.top_logprobs(i.logits, i.draws.rows, i.draws.temperatures, 5)


def _mixtures(k: Kernels, i: Inputs, out: Outputs) -> None:
    out["row dots"] = k.row_dots(i.x, i.y)
    logits = i.x.contiguous()
    for normalised in (False, True):
        routing = Routing(active=min(3, logits.shape[1]), normalised=normalised)
        routes = k.route(logits, routing)
        name = f"routes, normalised {normalised}"
        out[name], out[f"{name}, weights"] = routes.experts, routes.weights
        given = i.y[:, : routing.active].contiguous()
        out[f"{name}, backward"] = k.route_backward(logits, routing, routes, given)


def _state(k: Kernels, i: Inputs, out: Outputs) -> None:
    weight, grad, m, v = (t.clone() for t in i.flat)
    step = AdamStep(
        learning_rate=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, grad_scale=0.5, bias1=0.1, bias2=0.05
    )
    k.adam(weight, grad, m, v, step)
    out["weight"], out["first moment"], out["second moment"] = weight, m, v
    out["sum of squares"] = np.array([k.sum_squares(i.x)])
    out["finite"] = np.array([k.finite([i.x, i.x.where(i.x < i.x.max(), bad)]) for bad in (1, torch.inf, torch.nan)])
    matrix = Nf4Base.of(i.coded, i.x.device)
    out["nf4 product"] = k.nf4_product(i.x, [matrix, matrix])
    out["nf4 product of few rows"] = k.nf4_product(i.x[:3], [matrix])
    out["nf4"] = k.nf4_transposed(matrix.codes, matrix.absmax, *i.coded.shape)
