"""Differentiable steps of a decoder, as autograd functions over a `Kernels` object.

Weights are not autograd leaves: each `Weight` owns a gradient buffer, and a backward step adds the weight's gradient
there itself, one chain per unit of gradient and the units' chains by a fixed tree. Gradients returned to autograd would
be sums over the rows computed together, and so depend on the micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from tinsmith.ops.forest import Forest
from tinsmith.ops.kernels import HeadGains, HeadShape, Kernels, Pair, Rope, Turn, WithPair
from tinsmith.ops.packed import Packed
from tinsmith.ops.paging import Pages


@dataclass(slots=True, eq=False)
class Weight:
    """Tensor of the model, and the buffer of its gradient."""

    value: Tensor
    """fp32, or bf16 for a quantised base, which is widened for each use."""
    trained: bool = field(default=False, init=False)
    _sum: Tensor | None = field(default=None, init=False)

    def train(self) -> None:
        """Start an empty gradient, discarding the last one."""
        self.trained, self._sum = True, None

    def freeze(self) -> None:
        """Drop the gradient."""
        self.trained, self._sum = False, None

    @property
    def grad(self) -> Tensor | None:
        """Buffer to add to, zero at first; None if frozen."""
        if self.trained and self._sum is None:
            self._sum = torch.zeros_like(self.value)
        return self._sum

    def room(self) -> tuple[Tensor, bool]:
        """Buffer, and True if it holds no values yet and must be overwritten completely."""
        is_first = self._sum is None
        if self._sum is None:
            self._sum = torch.empty_like(self.value)
        return self._sum, is_first


class _Ctx(FunctionCtx):
    """Context of our functions between forward and backward."""

    kernels: Kernels
    saved: tuple[Any, ...]


def embedded(kernels: Kernels, table: Weight | Packed, ids: Tensor) -> Tensor:
    """Return rows of an embedding by token id, as fp32."""
    return table.take(ids) if isinstance(table, Packed) else kernels.embed(table.value, ids)


class Embed(torch.autograd.Function):
    """Embedding of token ids."""

    @staticmethod
    def forward(
        ctx: _Ctx, anchor: Tensor, kernels: Kernels, table: Weight | Packed, ids: Tensor, forest: Forest
    ) -> Tensor:
        del anchor  # requires grad, so that autograd records what follows
        ctx.kernels, ctx.saved = kernels, (table, ids, forest)
        return embedded(kernels, table, ids)

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[None, ...]:
        (dy,) = grads
        table, ids, forest = ctx.saved
        if isinstance(table, Weight) and table.grad is not None:
            ctx.kernels.embed_backward(ids, dy.contiguous(), forest.units, table.grad)
        return (None,) * 5


class AddRmsNorm(torch.autograd.Function):
    """Function (x + delta, RMSNorm of it); delta None leaves x."""

    @staticmethod
    def forward(
        ctx: _Ctx, x: Tensor, delta: Tensor | None, kernels: Kernels, gain: Weight, eps: float, forest: Forest
    ) -> tuple[Tensor, Tensor]:
        total, y, inv_rms = kernels.add_rms_norm(x, delta, gain.value, eps)
        # Detached: a node that keeps its own output is a cycle, freed only by the garbage collector.
        ctx.kernels, ctx.saved = kernels, (total.detach(), gain, inv_rms, forest, delta is not None)
        return (total.view_as(total) if delta is None else total), y

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_total, dy = grads
        total, gain, inv_rms, forest, has_delta = ctx.saved
        dx, xhat = ctx.kernels.rms_norm_backward(
            total, gain.value, inv_rms, d_total.contiguous(), dy.contiguous(), want_xhat=gain.grad is not None
        )
        if gain.grad is not None:
            ctx.kernels.column_chain(dy.contiguous(), xhat, forest.units, gain.grad)
        return dx, (dx if has_delta else None), None, None, None, None


class Rotate(torch.autograd.Function):
    """Per-head norm of q and k if the family has it, and rotation by position."""

    @staticmethod
    def forward(
        ctx: _Ctx, qkv: Tensor, kernels: Kernels, shape: HeadShape, forest: Forest, rope: Rope,
        gains: tuple[Weight, Weight, float] | None,
    ) -> Tensor:  # fmt: skip
        heads = None if gains is None else HeadGains(q=gains[0].value, k=gains[1].value, eps=gains[2])
        before = None if gains is None else qkv  # input of the norms' backward pass; the rotation needs none
        turn = Turn(shape, forest.rows.positions, rope, heads)
        ctx.kernels, ctx.saved = kernels, (before, turn, forest, gains)
        return kernels.rotate(qkv, turn)

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        before, turn, forest, gains = ctx.saved
        buffers = None if gains is None or gains[0].grad is None else (gains[0].grad, gains[1].grad)
        dx, sums = ctx.kernels.rotate_backward(before, dy.contiguous(), turn, want_gains=buffers is not None)
        if buffers is not None and sums is not None:
            ctx.kernels.column_chain(sums[0], None, forest.units * turn.shape.heads, buffers[0])
            ctx.kernels.column_chain(sums[1], None, forest.units * turn.shape.kv_heads, buffers[1])
        return dx, None, None, None, None, None


def attended(kernels: Kernels, qkv: Tensor, shape: HeadShape, forest: Forest) -> WithPair:
    """Compute causal attention of every row over its node's path, and the scores' part for its backward pass."""
    pages = Pages.allocate(forest.num_pages, shape.kv_heads, shape.head_dim, kernels.device)
    kernels.store_slots(qkv, shape, forest, pages)
    return kernels.attention(qkv, shape, forest.rows, pages, want_stats=True)


class Attention(torch.autograd.Function):
    """Autograd function of `attended`, computed now or earlier."""

    @staticmethod
    def forward(
        ctx: _Ctx, qkv: Tensor, kernels: Kernels, shape: HeadShape, forest: Forest, known: WithPair | None
    ) -> Tensor:
        out, stats = attended(kernels, qkv, shape, forest) if known is None else known
        ctx.kernels, ctx.saved = kernels, (qkv, shape, forest, out.detach(), stats)
        return out

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        qkv, shape, forest, out, stats = ctx.saved
        return (ctx.kernels.attention_backward(qkv, shape, forest, out, dy.contiguous(), stats), None, None, None, None)


class SiluGate(torch.autograd.Function):
    """Autograd function silu(gate) * up."""

    @staticmethod
    def forward(ctx: _Ctx, gate_up: Tensor, kernels: Kernels) -> Tensor:
        ctx.kernels, ctx.saved = kernels, (gate_up,)
        return kernels.silu_gate(gate_up)

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        return ctx.kernels.silu_gate_backward(ctx.saved[0], dy.contiguous()), None


class GivenGradient(torch.autograd.Function):
    """Scalar 0 whose `backward()` passes the gradient `grad` to `x`.

    The same bits as `x.backward(grad)`, which would make torch import a computer algebra system: most of a CPU-second.
    """

    @staticmethod
    def forward(ctx: _Ctx, x: Tensor, grad: Tensor) -> Tensor:
        ctx.saved = (grad,)
        return x.new_zeros(())

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor, None]:
        del grads  # 1.0, as of every scalar that a backward pass begins at
        return ctx.saved[0], None


class Recomputed(torch.autograd.Function):
    """Checkpointed steps from (x, delta) to two tensors: the backward pass computes them again.

    Steps are exact functions of their inputs, so that the gradients equal those without checkpointing, bit for bit.
    """

    @staticmethod
    def forward(
        ctx: _Ctx, x: Tensor, delta: Tensor | None, first: Callable[..., Pair], again: Callable[..., Pair]
    ) -> Pair:
        ctx.saved = (x, delta, again)
        return first(x, delta)

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, delta, again = ctx.saved
        inputs = [None if one is None else one.detach().requires_grad_() for one in (x, delta)]
        with torch.enable_grad():
            outputs = again(*inputs)
            ends = [GivenGradient.apply(y, dy) for y, dy in zip(outputs, grads, strict=True)]
            (ends[0] + ends[1]).backward()
        return *(None if one is None else one.grad for one in inputs), None, None
