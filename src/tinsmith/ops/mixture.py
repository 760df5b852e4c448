"""Mixture of experts as one step: routing of each row, the experts' MLPs, and their weighted sum.

A row's experts are computed from that row alone: rows are gathered by expert, a product's chains do not depend on the
other rows of an expert, and a row's experts are added in ascending order. So neighbours, micro-batches and threads
change no bit, forward or backward; an expert's gradient is, unit by unit, a chain over the unit's rows that took it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tinsmith.ops.experts import MixtureActivations, MixtureRows, Mlp, PartsOf, held_whole
from tinsmith.ops.functions import _Ctx  # pyright: ignore[reportPrivateUsage]
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import LinearActivations, Run, backward, forward_and_save
from tinsmith.ops.routing import Routes, Routing, dealt


@dataclass(frozen=True, slots=True)
class MixtureRun:
    """Rows [begin, end) with this adapter's parts."""

    begin: int
    end: int
    parts: PartsOf


def mixed(kernels: Kernels, x: Tensor, routes: Routes, experts: Sequence[Mlp], runs: Sequence[MixtureRun]) -> Tensor:
    """Compute the weighted sum of each row's experts, each run of rows with its adapter; nothing is saved."""
    mix = MixtureRows(routes, dealt(routes, len(experts)), experts, runs[0].parts)
    if len(runs) == 1 and held_whole(experts):
        return kernels.mixture(x, mix)
    return _one_by_one(kernels, x, mix, runs)


def _one_by_one(
    kernels: Kernels, x: Tensor, mix: MixtureRows, runs: Sequence[MixtureRun], saved: MixtureActivations | None = None
) -> Tensor:
    """Compute `mixed` expert by expert, for bases that are decoded for each product, or several adapters in a batch.

    With `saved`, the values for the backward pass are stored there.
    """
    y = torch.zeros_like(x)
    weights = mix.routes.weights.flatten()[mix.deal.places]
    for e, begin, end in mix.deal.taken:
        rows, whole = mix.deal.rows[begin:end], slice(begin, end)
        parts = [(cut, run.parts(e)) for cut, run in zip(_cuts(rows, runs), runs, strict=True) if cut[1] > cut[0]]
        up = tuple(Run(*cut, low) for cut, (low, _) in parts)
        down = tuple(Run(*cut, low) for cut, (_, low) in parts)
        gate_up, of_up = forward_and_save(kernels, x[rows], mix.experts[e].gate_up, up, keep=saved is not None)
        inner = kernels.silu_gate(gate_up)
        out, of_down = forward_and_save(kernels, inner, mix.experts[e].down, down, keep=saved is not None)
        y[rows] += out * weights[whole, None]
        found = (gate_up, inner, out, of_up.xa, of_down.xa, of_up.direction, of_down.direction)
        for room, value in zip(saved.rooms, found, strict=True) if saved is not None else ():
            if room is not None and value is not None:
                room[whole] = value
    return y


def _cuts(rows: Tensor, runs: Sequence[MixtureRun]) -> list[tuple[int, int]]:
    """Return each run's begin and end among ascending rows."""
    if len(runs) == 1:
        return [(0, len(rows))]
    bounds = torch.tensor([runs[0].begin, *(run.end for run in runs)], device=rows.device)
    at: list[int] = torch.searchsorted(rows, bounds).tolist()
    return list(pairwise(at))


class OneByOne(Kernels):
    """Fallback for any kernels that computes mixtures expert by expert, for a run that covers all rows."""

    def mixture(self: Kernels, x: Tensor, mix: MixtureRows) -> Tensor:
        return _one_by_one(self, x, mix, (MixtureRun(0, x.shape[0], mix.parts),))

    def mixture_forward(self: Kernels, x: Tensor, mix: MixtureRows) -> tuple[Tensor, MixtureActivations]:
        activations = MixtureActivations.empty(mix, x.device)
        return _one_by_one(self, x, mix, (MixtureRun(0, x.shape[0], mix.parts),), activations), activations

    def mixture_backward(
        self: Kernels, dy: Tensor, x: Tensor, mix: MixtureRows, segments: Tensor, saved: MixtureActivations
    ) -> tuple[Tensor, Tensor]:
        deal = mix.deal
        weights = mix.routes.weights.flatten()[deal.places]
        dx, d_weights = torch.zeros_like(dy), torch.zeros_like(weights)
        for e, begin, end in deal.taken:
            rows, whole = deal.rows[begin:end], slice(begin, end)
            bounds = torch.searchsorted(rows, segments.to(rows.device)).to(segments.device)
            low_up, low_down = mix.parts(e)
            of_up = LinearActivations(saved.xa_up[whole], _part(saved.direction_up, whole))
            of_down = LinearActivations(saved.xa_down[whole], _part(saved.direction_down, whole))
            own = dy[rows]
            d_weights[deal.places[whole]] = self.row_dots(own, saved.out[whole])
            d_out = own * weights[whole, None]
            d_inner = backward(self, saved.inner[whole], d_out, mix.experts[e].down, low_down, of_down, bounds)
            d_gate_up = self.silu_gate_backward(saved.gate_up[whole], d_inner)
            dx[rows] += backward(self, x[rows], d_gate_up, mix.experts[e].gate_up, low_up, of_up, bounds)
        return dx, d_weights.view_as(mix.routes.weights)


def _part(x: Tensor | None, rows: slice) -> Tensor | None:
    return None if x is None else x[rows]


class MixtureStep(torch.autograd.Function):
    """Autograd function of routing and `mixed`, for one run that covers all rows."""

    @staticmethod
    def forward(
        ctx: _Ctx,
        x: Tensor,
        logits: Tensor,
        kernels: Kernels,
        routing: Routing,
        experts: Sequence[Mlp],
        parts: PartsOf,
        segments: Tensor,
        observe: Callable[[Tensor, Routes], None] | None,
    ) -> Tensor:
        routes = kernels.route(logits, routing)
        if observe is not None:
            observe(logits, routes)
        mix = MixtureRows(routes, dealt(routes, len(experts)), experts, parts)
        whole = held_whole(experts)
        y, activations = kernels.mixture_forward(x, mix) if whole else OneByOne.mixture_forward(kernels, x, mix)
        ctx.kernels, ctx.saved = kernels, (x, logits, routing, mix, segments, activations)
        return y

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dy, kernels = grads[0].contiguous(), ctx.kernels
        x, logits, routing, mix, segments, activations = ctx.saved
        given = (dy, x, mix, segments, activations)
        if held_whole(mix.experts):
            dx, d_weights = kernels.mixture_backward(*given)
        else:
            dx, d_weights = OneByOne.mixture_backward(kernels, *given)
        d_logits = kernels.route_backward(logits, routing, mix.routes, d_weights)
        return dx, d_logits, *(None,) * 6
