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

from tinsmith.ops.experts import Mlp, PartsOf
from tinsmith.ops.functions import Weight, _Ctx  # pyright: ignore[reportPrivateUsage]
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.linear import Kept, Run, backward, forward_kept
from tinsmith.ops.routing import Dealt, Routes, Routing, dealt


@dataclass(frozen=True, slots=True)
class MixtureRun:
    """Rows [begin, end) go through this adapter's parts."""

    begin: int
    end: int
    parts: PartsOf


def mixed(
    kernels: Kernels, x: Tensor, routes: Routes, experts: Sequence[Mlp], runs: Sequence[MixtureRun]
) -> Tensor:
    """The weighted sum of each row's experts, each run of rows with its adapter; nothing is kept."""
    deal = dealt(routes, len(experts))
    if len(runs) == 1 and all(isinstance(one.gate_up.base[0], Weight) for one in experts):
        return kernels.mixture(x, routes, deal, experts, runs[0].parts)
    return mixed_one_by_one(kernels, x, routes, deal, experts, runs)


def mixed_one_by_one(
    kernels: Kernels,
    x: Tensor,
    routes: Routes,
    deal: Dealt,
    experts: Sequence[Mlp],
    runs: Sequence[MixtureRun],
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
        gate_up, _ = forward_kept(kernels, x[rows], experts[e].gate_up, _filled(up), keep=False)
        inner = kernels.silu_gate(gate_up)
        out, _ = forward_kept(kernels, inner, experts[e].down, _filled(down), keep=False)
        y[rows] += out * weights[begin:end, None]
    return y


def _cuts(rows: Tensor, runs: Sequence[MixtureRun]) -> list[tuple[int, int]]:
    """Where each run begins and ends among ascending rows."""
    if len(runs) == 1:
        return [(0, len(rows))]
    bounds = torch.tensor([runs[0].begin, *(run.end for run in runs)], device=rows.device)
    at: list[int] = torch.searchsorted(rows, bounds).tolist()
    return list(pairwise(at))


def _filled(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.end > run.begin)


@dataclass(slots=True)
class _Recorded:
    """What backward needs of one expert and the rows that took it."""

    expert: int
    begin: int
    end: int
    x: Tensor
    gate_up: Tensor
    inner: Tensor
    out: Tensor
    kept_up: Kept
    kept_down: Kept


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
        deal, y = dealt(routes, len(experts)), torch.zeros_like(x)
        weights = routes.weights.flatten()[deal.places]
        recorded: list[_Recorded] = []
        for e, begin, end in deal.taken:
            rows = deal.rows[begin:end]
            low_up, low_down = parts(e)
            whole, own = end - begin, x[rows]
            gate_up, kept_up = forward_kept(
                kernels, own, experts[e].gate_up, (Run(0, whole, low_up),), keep=True
            )
            inner = kernels.silu_gate(gate_up)
            out, kept_down = forward_kept(
                kernels, inner, experts[e].down, (Run(0, whole, low_down),), keep=True
            )
            y[rows] += out * weights[begin:end, None]
            recorded.append(_Recorded(e, begin, end, own, gate_up, inner, out, kept_up, kept_down))
        ctx.kernels = kernels
        ctx.saved = (logits, routing, routes, deal, weights, experts, parts, segments, recorded)
        return y

    @staticmethod
    def backward(ctx: _Ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        dy = grads[0].contiguous()
        kernels = ctx.kernels
        logits, routing, routes, deal, weights, experts, parts, segments, recorded = ctx.saved
        dx, d_weights = torch.zeros_like(dy), torch.zeros_like(weights)
        for one in recorded:
            rows = deal.rows[one.begin : one.end]
            bounds = torch.searchsorted(rows, segments.to(rows.device)).to(segments.device)
            low_up, low_down = parts(one.expert)
            expert: Mlp = experts[one.expert]
            own = dy[rows]
            d_weights[deal.places[one.begin : one.end]] = kernels.row_dots(own, one.out)
            d_out = own * weights[one.begin : one.end, None]
            d_inner = backward(
                kernels, one.inner, d_out, expert.down, low_down, one.kept_down, bounds
            )
            d_gate_up = kernels.silu_gate_backward(one.gate_up, d_inner)
            dx[rows] += backward(
                kernels, one.x, d_gate_up, expert.gate_up, low_up, one.kept_up, bounds
            )
        d_logits = kernels.route_backward(
            logits, routing, routes, d_weights.view_as(routes.weights)
        )
        return dx, d_logits, *(None,) * 6
