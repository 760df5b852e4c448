"""`fast` on CPU or GPU: the `Kernels` interface over stock torch operations, without any promise.

Each method computes what `Kernels` specifies. Gradients are summed over all segments at once. Index tensors may be on
the CPU; everything else is on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from tinsmith.ops import stock_attention
from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import AdamStep, Drawn, Draws, Floats, HeadShape, Pair, Rope, Turn, WithPair
from tinsmith.ops.mixture import OneByOne
from tinsmith.ops.nf4 import BLOCK, NF4_LEVELS
from tinsmith.ops.noise import gumbel, stream_keys
from tinsmith.ops.paging import PAGE, Pages, Rows
from tinsmith.ops.routing import Routes, Routing, stock_route_backward, stock_routes
from tinsmith.types.arithmetic import Arithmetic


class StockKernels(OneByOne):
    """Kernels that use the vendor's libraries on one device."""

    arithmetic: Arithmetic = Arithmetic.FAST

    def __init__(self, device: torch.device) -> None:
        self.device: torch.device = device
        self._layout: tuple[Rows, stock_attention.Layout] | None = None
        self._nf4_levels = torch.from_numpy(NF4_LEVELS.copy()).to(device)

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        """Use `mm`, or `addmm_`."""
        return torch.mm(a, b.float()) if into is None else into.addmm_(a, b.float())

    def grad_gemm(self, a: Tensor, b: Tensor, segments: Tensor, into: Tensor) -> None:
        """Use one `addmm_` over all segments."""
        rows = _covered(segments)
        into.addmm_(a[rows].t(), b[rows])

    def column_chain(self, x: Tensor, y: Tensor | None, segments: Tensor, into: Tensor) -> None:
        """Use one `sum` over all segments."""
        rows = _covered(segments)
        into += (x[rows] if y is None else x[rows] * y[rows]).sum(0)

    def embed(self, table: Tensor, ids: Tensor) -> Tensor:
        """Use an index."""
        return table.detach()[ids.to(self.device)].float()

    def embed_backward(self, ids: Tensor, dy: Tensor, segments: Tensor, into: Tensor) -> None:
        """Use one `index_add_` over all segments."""
        rows = _covered(segments)
        into.index_add_(0, ids[rows].to(self.device), dy[rows])

    def add_rms_norm(self, x: Tensor, delta: Tensor | None, gain: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
        """Apply the formula in elementwise operations."""
        total = x if delta is None else x + delta
        inv_rms = _inverse_rms(total, eps)
        return total, total * inv_rms * gain, inv_rms.flatten()

    def rms_norm_backward(
        self, x: Tensor, gain: Tensor, inv_rms: Tensor, d_sum: Tensor | None, dy: Tensor, *, want_xhat: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Apply the formula in elementwise operations."""
        xhat = x * inv_rms[:, None]
        dx = _norm_backward(xhat, inv_rms[:, None], dy * gain)
        return dx if d_sum is None else dx + d_sum, xhat if want_xhat else None

    def rotate(self, qkv: Tensor, turn: Turn) -> Tensor:
        """Apply the formula in elementwise operations."""
        q, k, v = stock_attention.split(qkv, turn.shape)
        if (gains := turn.gains) is not None:
            q = q * _inverse_rms(q, gains.eps) * gains.q
            k = k * _inverse_rms(k, gains.eps) * gains.k
        cos, sin = self._angles(turn)
        return torch.cat([_rotated(q, cos, sin), _rotated(k, cos, sin), v], dim=1).flatten(1)

    def rotate_backward(self, qkv: Tensor | None, dy: Tensor, turn: Turn, *, want_gains: bool) -> WithPair:
        """Apply the formula in elementwise operations."""
        (cos, sin), gains = self._angles(turn), turn.gains
        dq, dk, dv = stock_attention.split(dy, turn.shape)
        dq, dk = _rotated(dq, cos, -sin), _rotated(dk, cos, -sin)
        if gains is None or qkv is None:
            return torch.cat([dq, dk, dv], dim=1).flatten(1), None
        q, k, _ = stock_attention.split(qkv, turn.shape)
        q_inv, k_inv = _inverse_rms(q, gains.eps), _inverse_rms(k, gains.eps)
        q_hat, k_hat = q * q_inv, k * k_inv
        rows = ((dq * q_hat).flatten(0, 1), (dk * k_hat).flatten(0, 1)) if want_gains else None
        dq = _norm_backward(q_hat, q_inv, dq * gains.q)
        dk = _norm_backward(k_hat, k_inv, dk * gains.k)
        return torch.cat([dq, dk, dv], dim=1).flatten(1), rows

    def store_keys(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages) -> None:
        """Use an index."""
        layout = self._layout_of(rows)
        stock_attention.store(qkv, shape, layout.page, layout.slot, pages)

    def store_slots(self, qkv: Tensor, shape: HeadShape, forest: Forest, pages: Pages) -> None:
        """Use an index."""
        held = torch.nonzero(forest.slots >= 0).flatten()
        stock_attention.store(
            qkv[forest.slots[held].to(self.device)],
            shape,
            (held // PAGE).to(self.device),
            (held % PAGE).to(self.device),
            pages,
        )

    def attention(self, qkv: Tensor, shape: HeadShape, rows: Rows, pages: Pages, *, want_stats: bool) -> WithPair:
        """Use `scaled_dot_product_attention`; the statistics are empty, as backward needs none."""
        out = stock_attention.attend(qkv, shape, self._layout_of(rows), pages)
        return out, (out.new_empty(0), out.new_empty(0)) if want_stats else None

    def attention_backward(
        self, qkv: Tensor, shape: HeadShape, forest: Forest, out: Tensor, d_out: Tensor, stats: Pair
    ) -> Tensor:
        """Use autograd through the forward pass, computed again tree by tree."""
        del out, stats
        d_qkv = torch.empty_like(qkv)
        nodes = forest.unit_nodes.tolist()
        for unit, (begin, end) in enumerate(pairwise(forest.units.tolist())):
            own = range(nodes[unit], nodes[unit + 1])
            paths = [torch.from_numpy(forest.paths[n] - begin).to(self.device) for n in own]
            firsts = [int(forest.rows.first_pos[n]) for n in own]
            d_qkv[begin:end] = stock_attention.tree_gradient(qkv[begin:end], shape, paths, firsts, d_out[begin:end])
        return d_qkv

    def silu_gate(self, gate_up: Tensor) -> Tensor:
        """Use `silu`."""
        gate, up = gate_up.chunk(2, dim=1)
        return F.silu(gate) * up

    def silu_gate_backward(self, gate_up: Tensor, dy: Tensor) -> Tensor:
        """Apply the formula in elementwise operations."""
        gate, up = gate_up.chunk(2, dim=1)
        share = torch.sigmoid(gate)
        d_gate = dy * up * share * (1 + gate * (1 - share))
        return torch.cat([d_gate, dy * gate * share], dim=1)

    def route(self, logits: Tensor, routing: Routing) -> Routes:
        """Use a stable `sort` and `softmax`."""
        return stock_routes(logits, routing)

    def route_backward(self, logits: Tensor, routing: Routing, routes: Routes, d_weights: Tensor) -> Tensor:
        """Apply the formula in elementwise operations."""
        return stock_route_backward(logits, routing, routes, d_weights)

    def row_entropies(self, logits: Tensor) -> Tensor:
        """Use `entr` of `softmax`."""
        return torch.special.entr(torch.softmax(logits, 1)).sum(1)

    def row_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """Use a product and a `sum`."""
        return (x * y).sum(1)

    def row_stats(self, logits: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        """Use `amax` and `logsumexp`."""
        scaled = logits / temperature
        largest = scaled.amax(1)
        return largest, torch.logsumexp(scaled - largest[:, None], 1)

    def gather_logprobs(self, logits: Tensor, targets: Tensor, stats: Pair, *, rows: Tensor | None = None) -> Tensor:
        """Use an index."""
        read = torch.arange(logits.shape[0]) if rows is None else rows
        read, index = read.to(self.device), targets.to(self.device).long()
        return logits[read, index] - stats[0][read] - stats[1][read]

    def logprob_backward(self, logits: Tensor, reads: Tensor, targets: Tensor, grads: Tensor, stats: Pair) -> Tensor:
        """Apply the formula in elementwise operations."""
        count = reads.diff().to(self.device)
        row = torch.repeat_interleave(torch.arange(len(count), device=self.device), count)
        total = logits.new_zeros(len(count)).index_add_(0, row, grads)
        largest, log_sum = stats[0][:, None], stats[1][:, None]
        logits.sub_(largest).sub_(log_sum).exp_().mul_(-total[:, None])
        return logits.index_put_((row, targets.to(self.device).long()), grads, accumulate=True)

    def scale_bias(self, y: Tensor, scale: Tensor | None, bias: Tensor | None) -> None:
        """Use `mul_` and `add_`."""
        if scale is not None:
            y *= scale
        if bias is not None:
            y += bias

    def choose(self, logits: Tensor, draws: Draws) -> Drawn:
        """Apply the native kernels' sampling law in torch's fp64."""
        row_N = self._to_device(draws.rows)
        temperature_N = self._to_device(draws.temperatures)
        chosen = logits[row_N]
        greedy = (temperature_N == 0)[:, None]
        scaled = chosen / torch.where(greedy, 1, temperature_N[:, None])
        logprobs = torch.log_softmax(scaled, 1)
        score = scaled.double()
        if (draws.temperatures != 0).any():
            keys = stream_keys(draws.seeds, draws.samples, draws.positions)
            score = score + gumbel(keys, logits.shape[1], self.device)
        if (draws.top_ks > 0).any() or (draws.top_ps < 1).any():
            allowed = self._allowed(chosen, logprobs, draws)
            score = score.masked_fill(~allowed, -torch.inf)
        tokens = torch.where(greedy, chosen.double(), score).argmax(1, keepdim=True)
        drawn = logprobs.gather(1, tokens)
        tokens = torch.where(drawn.isnan(), -1, tokens)
        return tokens[:, 0].int().cpu().numpy(), drawn[:, 0].cpu().numpy()

    def top_logprobs(self, logits: Tensor, rows: NDArray[np.int64], temperatures: Floats, k: int) -> Drawn:
        """Use a stable `sort`, since `topk` leaves the order of equals open."""
        chosen = logits[self._to_device(rows)]
        temperature_N = self._to_device(np.where(temperatures == 0, np.float32(1), temperatures))
        tokens = torch.sort(chosen, dim=1, descending=True, stable=True).indices[:, :k]
        logprobs = torch.log_softmax(chosen / temperature_N[:, None], 1).gather(1, tokens)
        return tokens.int().cpu().numpy(), logprobs.cpu().numpy()

    def adam(self, weight: Tensor, grad: Tensor, m: Tensor, v: Tensor, step: AdamStep) -> None:
        """Use elementwise operations."""
        grad = grad * step.grad_scale
        m.mul_(step.beta1).add_(grad, alpha=1 - step.beta1)
        v.mul_(step.beta2).addcmul_(grad, grad, value=1 - step.beta2)
        change = (m / step.bias1) / ((v / step.bias2).sqrt_() + step.eps)
        weight.mul_(1 - step.learning_rate * step.weight_decay)
        weight.add_(change, alpha=-step.learning_rate)

    def sum_squares(self, x: Tensor) -> float:
        """Use `vector_norm` in fp64, squared."""
        return float(torch.linalg.vector_norm(x, dtype=torch.float64)) ** 2

    def finite(self, tensors: Sequence[Tensor]) -> bool:
        """Use `isfinite`."""
        return all(bool(x.isfinite().all()) for x in tensors)

    def nf4_transposed(self, codes: Tensor, absmax: Tensor, out: int, in_: int) -> Tensor:
        """Use an index."""
        pairs = torch.stack([codes >> 4, codes & 15], dim=1).flatten()[: out * in_]
        scales = absmax.repeat_interleave(BLOCK)[: out * in_]
        return (self._nf4_levels[pairs.long()] * scales).view(out, in_).t().contiguous()

    def rope(self, frequencies: NDArray[np.float32], positions: int) -> Rope:
        """Use `cos` and `sin` in fp64 of the fp32 angle."""
        position = torch.arange(positions, dtype=torch.float32, device=self.device)
        angle = (position[:, None] * self._to_device(frequencies)).double()
        return Rope(angle.cos().float(), angle.sin().float())

    def threads(self) -> int:
        """Return torch's own thread count on CPU."""
        return torch.get_num_threads()

    def set_threads(self, count: int) -> None:
        """Set torch's own thread count."""
        torch.set_num_threads(count)

    def _to_device(self, x: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(x).to(self.device)

    def _layout_of(self, rows: Rows) -> stock_attention.Layout:
        """Return the indices of `rows`, cached until `rows` change, since every layer needs them."""
        if self._layout is None or self._layout[0] is not rows:
            self._layout = (rows, stock_attention.layout_of(rows, self.device))
        return self._layout[1]

    def _angles(self, turn: Turn) -> Pair:
        """Return cos and sin of every row, (rows, 1, head_dim / 2)."""
        position = turn.positions.to(self.device)
        return turn.rope.cos[position, None], turn.rope.sin[position, None]

    def _allowed(self, chosen: Tensor, logprobs: Tensor, draws: Draws) -> Tensor:
        """Return a mask of the tokens that remain after top-k, and then top-p of the remaining mass."""
        num_tokens = chosen.shape[1]
        order = torch.sort(chosen, dim=1, descending=True, stable=True).indices
        top_k = np.where(draws.top_ks > 0, draws.top_ks, num_tokens)
        within = torch.arange(num_tokens, device=self.device) < self._to_device(top_k)[:, None]
        mass = logprobs.gather(1, order).double().exp() * within
        before = mass.cumsum(1) - mass
        top_p = np.where(draws.top_ps < 1, draws.top_ps, np.inf)
        enough = self._to_device(top_p)[:, None] * mass.sum(1, keepdim=True)
        allowed = within & (before < enough)
        allowed[:, 0] = True
        return torch.zeros_like(allowed).scatter_(1, order, allowed)


def _covered(segments: Tensor) -> slice:
    """Return the rows that the segments cover."""
    return slice(int(segments[0]), int(segments[-1]))


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def _norm_backward(xhat: Tensor, inv_rms: Tensor, d_xhat: Tensor) -> Tensor:
    """Return the gradient through xhat = x * inv_rms over the last axis."""
    return inv_rms * (d_xhat - xhat * (d_xhat * xhat).mean(-1, keepdim=True))


def _rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs (i, i + half), as transformers' rotate_half does."""
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class Bf16Products(StockKernels):
    """Stock kernels with the operands of every product rounded to bf16, as on most accelerators; the rest in fp32."""

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        """Use `mm` in bf16."""
        product = torch.mm(a.bfloat16(), b.bfloat16()).float()
        return product if into is None else into.add_(product)
