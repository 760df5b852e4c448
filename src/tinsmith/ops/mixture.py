"""A mixture of experts as one step: which experts each row takes, these experts' MLPs, and their weighted sum.

A row's experts are computed from that row alone: rows are gathered by expert, a product's chains know nothing of who
else chose it, and a row's experts are added in ascending order. So neighbours, micro-batches and threads change no bit,
forward or backward; an expert's gradient is, unit by unit, a chain over the unit's rows that took it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from tinsmith.ops.experts import MixtureActivations, Mlp, PartsOf, held_whole
from tinsmith.ops.functions import _Ctx  # pyright: ignore[reportPrivateUsage]
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import LinearActivations, Run, backward, forward_and_save
from tinsmith.ops.routing import Dealt, Routes, Routing, dealt


@dataclass(frozen=True, slots=True)
class MixtureRun:
    """Rows [begin, end) go through this adapter's parts."""

    begin: int
    end: int
    parts: PartsOf


def mixed(kernels: Kernels, x: Tensor, routes: Routes, experts: Sequence[Mlp], runs: Sequence[MixtureRun]) -> Tensor:
    """The weighted sum of each row's experts, each run of rows with its adapter; nothing is kept."""
    deal = dealt(routes, len(experts))
    if len(runs) == 1 and held_whole(experts):
        return kernels.mixture(x, routes, deal, experts, runs[0].parts)
    return mixed_one_by_one(kernels, x, routes, deal, experts, runs)


def mixed_one_by_one(
    kernels: Kernels, x: Tensor, routes: Routes, deal: Dealt, experts: Sequence[Mlp], runs: Sequence[MixtureRun]
) -> Tensor:
    """As `mixed`, expert by expert: bases that are decoded for each product, and several adapters in a batch."""
    y = torch.zeros_like(x)
    weights = routes.weights.flatten()[deal.places]
    for e, begin, end in deal.taken:
        rows = deal.rows[begin:end]
        cuts = _cuts(rows, runs)
        parts = [(run, run.parts(e)) for run in runs]
        up = tuple(Run(*cuts[i], low) for i, (_, (low, _)) in enumerate(parts))
        down = tuple(Run(*cuts[i], low) for i, (_, (_, low)) in enumerate(parts))
        gate_up, _ = forward_and_save(kernels, x[rows], experts[e].gate_up, _filled(up), keep=False)
        inner = kernels.silu_gate(gate_up)
        out, _ = forward_and_save(kernels, inner, experts[e].down, _filled(down), keep=False)
        y[rows] += out * weights[begin:end, None]
    return y


def _cuts(rows: Tensor, runs: Sequence[MixtureRun]) -> list[tuple[int, int]]:
    """Return each run's begin and end among ascending rows."""
    if len(runs) == 1:
        return [(0, len(rows))]
    bounds = torch.tensor([runs[0].begin, *(run.end for run in runs)], device=rows.device)
    at: list[int] = torch.searchsorted(rows, bounds).tolist()
    return list(pairwise(at))


def _filled(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.end > run.begin)


def forward_one_by_one(
    kernels: Kernels, x: Tensor, routes: Routes, deal: Dealt, experts: Sequence[Mlp], parts: PartsOf
) -> tuple[Tensor, MixtureActivations]:
    """As `mixed_one_by_one` for one run that covers all rows, and what backward needs."""
    y = torch.zeros_like(x)
    weights = routes.weights.flatten()[deal.places]
    kept = MixtureActivations.empty(len(deal.rows), experts, parts(deal.taken[0][0]), x.device)
    for e, begin, end in deal.taken:
        rows, whole = deal.rows[begin:end], slice(begin, end)
        up, down = (Run(0, end - begin, low) for low in parts(e))
        kept.gate_up[whole], of_up = forward_and_save(kernels, x[rows], experts[e].gate_up, (up,), keep=True)
        kept.inner[whole] = kernels.silu_gate(kept.gate_up[whole])
        kept.out[whole], of_down = forward_and_save(kernels, kept.inner[whole], experts[e].down, (down,), keep=True)
        for room, value in (
            (kept.xa_up, of_up.xa),
            (kept.xa_down, of_down.xa),
            (kept.direction_up, of_up.direction),
            (kept.direction_down, of_down.direction),
        ):
            if room is not None and value is not None:
                room[whole] = value
        y[rows] += kept.out[whole] * weights[whole, None]
    return y, kept


def backward_one_by_one(
    kernels: Kernels,
    dy: Tensor,
    x: Tensor,
    routes: Routes,
    deal: Dealt,
    experts: Sequence[Mlp],
    parts: PartsOf,
    segments: Tensor,
    kept: MixtureActivations,
) -> tuple[Tensor, Tensor]:
    """Add the gradients of all trained weights; (that of x, that of the routes' weights)."""
    weights = routes.weights.flatten()[deal.places]
    dx, d_weights = torch.zeros_like(dy), torch.zeros_like(weights)
    for e, begin, end in deal.taken:
        rows, whole = deal.rows[begin:end], slice(begin, end)
        bounds = torch.searchsorted(rows, segments.to(rows.device)).to(segments.device)
        low_up, low_down = parts(e)
        of_up = LinearActivations(kept.xa_up[whole], _part(kept.direction_up, whole))
        of_down = LinearActivations(kept.xa_down[whole], _part(kept.direction_down, whole))
        own = dy[rows]
        d_weights[deal.places[whole]] = kernels.row_dots(own, kept.out[whole])
        d_out = own * weights[whole, None]
        d_inner = backward(kernels, kept.inner[whole], d_out, experts[e].down, low_down, of_down, bounds)
        d_gate_up = kernels.silu_gate_backward(kept.gate_up[whole], d_inner)
        dx[rows] += backward(kernels, x[rows], d_gate_up, experts[e].gate_up, low_up, of_up, bounds)
    return dx, d_weights.view_as(routes.weights)


def _part(x: Tensor | None, rows: slice) -> Tensor | None:
    return None if x is None else x[rows]


def mixture_one_by_one(
    kernels: Kernels, x: Tensor, routes: Routes, deal: Dealt, experts: Sequence[Mlp], parts: PartsOf
) -> Tensor:
    """As `mixed_one_by_one` for one run that covers all rows."""
    return mixed_one_by_one(kernels, x, routes, deal, experts, (MixtureRun(0, x.shape[0], parts),))


class OneByOne:
    """The mixtures of kernels that compute them expert by expert."""

    mixture = mixture_one_by_one
    mixture_forward = forward_one_by_one
    mixture_backward = backward_one_by_one


class MixtureStep(torch.autograd.Function):
    """Routes by the router's logits, and `mixed` with a backward, for one run that covers all rows."""

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
        seen: Callable[[Tensor, Routes], None] | None,
    ) -> Tensor:
        routes = kernels.route(logits, routing)
        if seen is not None:
            seen(logits, routes)
        deal = dealt(routes, len(experts))
        if held_whole(experts):
            y, kept = kernels.mixture_forward(x, routes, deal, experts, parts)
        else:
            y, kept = forward_one_by_one(kernels, x, routes, deal, experts, parts)
        ctx.kernels = kernels
        ctx.saved = (x, logits, routing, routes, deal, experts, parts, segments, kept)
        return y

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dy, kernels = grads[0].contiguous(), ctx.kernels
        x, logits, routing, routes, deal, experts, parts, segments, kept = ctx.saved
        given = (dy, x, routes, deal, experts, parts, segments, kept)
        if held_whole(experts):
            dx, d_weights = kernels.mixture_backward(*given)
        else:
            dx, d_weights = backward_one_by_one(kernels, *given)
        d_logits = kernels.route_backward(logits, routing, routes, d_weights)
        return dx, d_logits, *(None,) * 6
