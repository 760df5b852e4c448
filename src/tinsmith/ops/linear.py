"""Linear step: a frozen, trained or quantised base, with low-rank adapters beside it that are never merged.

Weights are stored transposed, [in, out], as a product of rows reads them. A LoRA's second product continues the chain
of the base product; DoRA scales the sum per output column by magnitude / norm (arXiv:2402.09353 sec. 4.3: the norm is a
constant in backward).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import torch
from torch import Tensor

from tinsmith.ops.functions import Weight, _Ctx  # pyright: ignore[reportPrivateUsage]
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.nf4 import DYNAMIC_LEVELS, GROUP, Nf4Tensor, to_parts
from tinsmith.ops.packed import NF4, Packed

_COLUMNS: Final = 256
"""Columns of a published-form matrix that are widened at a time if its columns are read in turn."""


@dataclass(slots=True, eq=False)
class Nf4Base:
    """Base weight in NF4 with double quantisation, laid out as in `ops.nf4`; decoded for each product, never cached."""

    codes: Tensor
    absmax_codes: Tensor
    """One code of 8 bits per block of 64 weights."""
    absmax_scales: Tensor
    """One scale per 256 blocks."""
    offset: Tensor
    """Mean absmax, [1]."""
    out_size: int
    in_size: int

    @classmethod
    def of(cls, weight: Nf4Tensor, device: torch.device) -> Nf4Base:
        """Copy to a device."""
        parts = {name: torch.from_numpy(part.copy()).to(device) for name, part in to_parts(weight).items()}
        out_size, in_size = parts.pop("shape").tolist()
        return cls(**parts, out_size=out_size, in_size=in_size)

    @property
    def absmax(self) -> Tensor:
        """Scale of each block, with the bits of `nf4.block_absmax`."""
        levels = _dynamic_levels(self.codes.device).index_select(0, self.absmax_codes.int())
        levels *= self.absmax_scales.repeat_interleave(GROUP)[: levels.numel()]
        levels += self.offset
        return levels

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        parts = (self.codes, self.absmax_codes, self.absmax_scales, self.offset)
        return sum(part.nbytes for part in parts)


@cache
def _dynamic_levels(device: torch.device) -> Tensor:
    return torch.from_numpy(DYNAMIC_LEVELS.copy()).to(device)


@dataclass(slots=True, eq=False)
class Linear:
    """Matrix (or several side by side that read the same rows), and its bias."""

    base: tuple[Weight, ...] | tuple[Nf4Base, ...] | tuple[Packed, ...]
    """One Weight [in, out], fp32 or bf16, or one Nf4Base or Packed per original matrix, in column order."""
    in_size: int
    widths: tuple[int, ...]
    """Output columns of each original matrix, in order."""
    bias: Weight | None = None

    @property
    def out_size(self) -> int:
        """Total number of output columns."""
        return sum(self.widths)

    def product(self, kernels: Kernels, x: Tensor) -> Tensor:
        """Compute the product of rows x [rows, in] with the base in its stored form."""
        first = self.base[0]
        if isinstance(first, Weight):
            return kernels.gemm(x, first.value)
        if isinstance(first, Packed):
            return Packed.product(x, self.packed)
        return kernels.nf4_product(x, [base for base in self.base if isinstance(base, Nf4Base)])

    def product_turned(self, kernels: Kernels, dy: Tensor) -> Tensor:
        """Compute the product of rows dy [rows, out] with the transposed base in its stored form."""
        first = self.base[0]
        if isinstance(first, Packed):
            return Packed.product_turned(dy, self.packed)
        return kernels.gemm(dy, (first.value if isinstance(first, Weight) else self.weight(kernels)).t())

    @property
    def is_nf4(self) -> bool:
        """True if the base is in NF4."""
        first = self.base[0]
        return isinstance(first, Nf4Base) or (isinstance(first, Packed) and first.type == NF4)

    @property
    def packed(self) -> list[Packed]:
        """Matrices held in their published form."""
        return [base for base in self.base if isinstance(base, Packed)]

    def weight(self, kernels: Kernels) -> Tensor:
        """Return the base as fp32 [in, out]."""
        first = self.base[0]
        if isinstance(first, Weight):
            return first.value.float()
        parts = [
            kernels.nf4_transposed(b.codes, b.absmax, b.out_size, b.in_size)
            for b in self.base
            if isinstance(b, Nf4Base)
        ] or [b.columns(0, b.shape[0]) for b in self.packed]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def columns(self, kernels: Kernels) -> Iterator[tuple[int, Tensor]]:
        """Yield the base in chunks: first column, and values as fp32 [in, some columns], which the caller may modify.

        Matrices in published form are yielded few columns at a time: widened, they take six times the memory.
        """
        if not self.packed:
            whole = self.weight(kernels)
            yield 0, whole.clone() if isinstance(self.base[0], Weight) else whole
        begin = 0
        for matrix in self.packed:
            for row in range(0, matrix.shape[0], _COLUMNS):
                yield begin + row, matrix.columns(row, min(row + _COLUMNS, matrix.shape[0]))
            begin += matrix.shape[0]


@dataclass(slots=True, eq=False, weakref_slot=True)
class LowRank:
    """Adapter of one `Linear`: A for all its targets side by side, B per target."""

    a: Weight
    """Shape [in, sum of ranks]."""
    b: tuple[Weight, ...]
    """Per target, shape [rank, columns]."""
    columns: tuple[tuple[int, int], ...]
    """Per target, its columns in the output."""
    scaling: float
    magnitude: Weight | None = None
    """DoRA's magnitudes, [out]; one per output column (columns without a target keep their norm)."""
    norm: Tensor | None = None
    """DoRA's norm of each row of W + scaling B A, [out]; computed once per weight version."""
    gain: Tensor | None = None
    """DoRA's magnitude / norm, [out]; 0 for a row of zeros."""
    factors: Tensor = field(init=False)
    """`scaling` for each column of `a`."""

    def __post_init__(self) -> None:
        self.factors = torch.full((self.a.value.shape[1],), self.scaling, device=self.a.value.device)

    def rank_slices(self) -> list[tuple[int, int]]:
        """Return the columns of `a` that belong to each target."""
        slices: list[tuple[int, int]] = []
        start = 0
        for b in self.b:
            slices.append((start, start + b.value.shape[0]))
            start += b.value.shape[0]
        return slices


@dataclass(frozen=True, slots=True)
class Run:
    """Rows [begin, end) with this adapter (None: the base alone)."""

    begin: int
    end: int
    adapter: LowRank | None


def refresh_norm(kernels: Kernels, linear: Linear, low: LowRank) -> None:
    """Recompute DoRA's norm after its weights changed: row norms of W + scaling B A, each one chain over `in`."""
    if low.magnitude is None:
        return
    scaled = low.a.value * low.scaling
    squares = torch.zeros(linear.out_size, device=scaled.device)
    for begin, summed in linear.columns(kernels):
        end = begin + summed.shape[1]
        for b, (r0, r1), (c0, c1) in zip(low.b, low.rank_slices(), low.columns, strict=True):
            first, last = max(begin, c0), min(end, c1)
            if first < last:
                into = summed[:, first - begin : last - begin]
                kernels.gemm(scaled[:, r0:r1], b.value[:, first - c0 : last - c0], into=into)
        kernels.column_chain(summed, summed, torch.tensor([0, linear.in_size]), squares[begin:end])
    set_norm(low, rounded_root(squares))


def set_norm(low: LowRank, norm: Tensor) -> None:
    """Set a DoRA's norm, wherever it was computed, and the gain that follows from it."""
    assert low.magnitude is not None
    low.norm = norm
    low.gain = _over(low.magnitude.value, norm)


def rounded_root(x: Tensor) -> Tensor:
    """Return the square root of fp32 values, correctly rounded whatever the machine.

    torch's own comes from MKL, whose fp32 root is up to an ulp off and differs between processors. A root
    of 24 bits is 2^-50 or more from the middle of two fp32 values: an fp64 root within an ulp, 2^-52, rounds right.
    """
    return torch.sqrt(x.double()).float()


def _over(x: Tensor, norm: Tensor) -> Tensor:
    """Divide, giving 0 where the norm is 0, since such a row has no direction."""
    return torch.where(norm > 0, x / norm, torch.zeros_like(x))


def forward(kernels: Kernels, x: Tensor, linear: Linear, runs: tuple[Run, ...]) -> Tensor:
    """Compute y = x W^T + bias with each run's adapter; rows do not affect one another."""
    return forward_and_save(kernels, x, linear, runs, keep=False)[0]


@dataclass(slots=True)
class LinearActivations:
    """Forward values for the backward pass of a single training run."""

    xa: Tensor | None = None
    direction: Tensor | None = None
    """For DoRA, (W + scaling B A) x over the norm, which the magnitudes multiply."""


def forward_and_save(
    kernels: Kernels, x: Tensor, linear: Linear, runs: tuple[Run, ...], *, keep: bool
) -> tuple[Tensor, LinearActivations]:
    """Compute as `forward` does, and with `keep` return the values for `backward` of the one run."""
    y = linear.product(kernels, x)
    activations = LinearActivations()
    bias = None if linear.bias is None else linear.bias.value
    for run in runs:
        low = run.adapter
        part = y[run.begin : run.end]
        if low is not None:
            xa = kernels.gemm(x[run.begin : run.end], low.a.value)
            kernels.scale_bias(xa, low.factors, None)
            for b, (r0, r1), (c0, c1) in zip(low.b, low.rank_slices(), low.columns, strict=True):
                kernels.gemm(xa[:, r0:r1], b.value, into=part[:, c0:c1])
            if keep:
                activations.xa = xa
                if low.magnitude is not None and low.magnitude.grad is not None:
                    assert low.norm is not None
                    activations.direction = _over(part, low.norm)
        gain = None if low is None else low.gain
        if gain is not None or bias is not None:
            kernels.scale_bias(part, gain, bias)
    return y, activations


def backward(
    kernels: Kernels,
    x: Tensor,
    dy: Tensor,
    linear: Linear,
    low: LowRank | None,
    saved: LinearActivations,
    segments: Tensor,
) -> Tensor:
    """Add the gradients of every trained weight, and return that of x."""
    if linear.bias is not None and linear.bias.grad is not None:
        kernels.column_chain(dy, None, segments, linear.bias.grad)
    if low is not None and low.gain is not None and low.magnitude is not None:
        if low.magnitude.grad is not None and saved.direction is not None:
            kernels.column_chain(dy, saved.direction, segments, low.magnitude.grad)
        dy = dy.clone()
        kernels.scale_bias(dy, low.gain, None)
    first = linear.base[0]
    if isinstance(first, Weight) and first.grad is not None:
        kernels.grad_gemm(x, dy, segments, first.grad)
    dx = linear.product_turned(kernels, dy)
    if low is not None and saved.xa is not None:
        dxa = torch.empty_like(saved.xa)
        for b, (r0, r1), (c0, c1) in zip(low.b, low.rank_slices(), low.columns, strict=True):
            if b.grad is not None:
                kernels.grad_gemm(saved.xa[:, r0:r1], dy[:, c0:c1], segments, b.grad)
            dxa[:, r0:r1] = kernels.gemm(dy[:, c0:c1], b.value.t())
        dxa *= low.scaling
        if low.a.grad is not None:
            kernels.grad_gemm(x, dxa, segments, low.a.grad)
        kernels.gemm(dxa, low.a.value.t(), into=dx)
    return dx


class LinearStep(torch.autograd.Function):
    """Autograd function of `forward` for one run that covers all rows."""

    @staticmethod
    def forward(
        ctx: _Ctx, x: Tensor, kernels: Kernels, linear: Linear, low: LowRank | None, segments: Tensor
    ) -> Tensor:
        y, activations = forward_and_save(kernels, x, linear, (Run(0, x.shape[0], low),), keep=True)
        ctx.kernels, ctx.saved = kernels, (x, linear, low, activations, segments)
        return y

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grads
        x, linear, low, activations, segments = ctx.saved
        return (backward(ctx.kernels, x, dy.contiguous(), linear, low, activations, segments), None, None, None, None)
