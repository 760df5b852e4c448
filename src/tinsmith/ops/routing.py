"""Routing of rows to a mixture's experts by router logits, and the rows sorted by expert."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Number of experts per row, and their weighting."""

    active: int
    """Number of experts with the largest router logits, ties to the lower expert."""
    normalised: bool
    """True if the softmax is over the chosen experts only, False if over all."""


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Experts of each row."""

    experts: Tensor
    """[rows, active] int64, ascending."""
    weights: Tensor
    """[rows, active]."""


@dataclass(frozen=True, slots=True, eq=False)
class Dealt:
    """Rows by expert: those of expert e are rows[bounds[e] : bounds[e + 1]], ascending."""

    rows: Tensor
    """(rows * active,) int64"""
    places: Tensor
    """(rows * active,) int64: index of each row's weight in the flat weights."""
    bounds: list[int]

    @property
    def taken(self) -> list[tuple[int, int, int]]:
        """Yield (expert, begin, end) of every expert that a row takes, ascending."""
        ends = zip(self.bounds, self.bounds[1:], strict=False)
        return [(e, begin, end) for e, (begin, end) in enumerate(ends) if end > begin]


def dealt(routes: Routes, num_experts: int) -> Dealt:
    """Sort (row, expert) pairs by expert, then by row."""
    flat = routes.experts.flatten()
    places = torch.sort(flat, stable=True).indices
    counts = torch.bincount(flat, minlength=num_experts)
    rows = torch.div(places, routes.experts.shape[1], rounding_mode="floor")
    return Dealt(rows, places, [0, *torch.cumsum(counts, 0).tolist()])


def digests(experts: Tensor, layer: int) -> Tensor:
    """Return a digest of each row's experts in this layer, (rows,) int64; digests are added up over layers.

    A polynomial of the experts modulo 2^64, mixed with the layer's number as in SplitMix64 (Steele et al. 2014).
    """
    powers = [pow(_BASE, i, 1 << 64) for i in range(1, experts.shape[1] + 1)]
    factors = torch.tensor([_signed(power) for power in powers], device=experts.device)
    mixed = (experts * factors).sum(1) + _signed((layer + 1) * _GOLDEN)
    for shift, factor in ((30, _FIRST), (27, _SECOND)):
        mixed = (mixed ^ (mixed >> shift)) * factor
    return mixed ^ (mixed >> 31)


def _signed(word: int) -> int:
    """Return the int64 with the bits of a number modulo 2^64."""
    return ((word + (1 << 63)) % (1 << 64)) - (1 << 63)


_BASE = 0xD1342543DE82EF95
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def stock_routes(logits: Tensor, routing: Routing) -> Routes:
    """Route by torch's own operations: a stable sort, since `topk` leaves the order of equals open."""
    order = torch.sort(logits, dim=1, descending=True, stable=True).indices
    experts = torch.sort(order[:, : routing.active], dim=1).values
    chosen = logits.gather(1, experts)
    if routing.normalised:
        return Routes(experts, torch.softmax(chosen, 1))
    return Routes(experts, torch.softmax(logits, 1).gather(1, experts))


def stock_route_backward(logits: Tensor, routing: Routing, routes: Routes, d_weights: Tensor) -> Tensor:
    """Compute `Kernels.route_backward` in elementwise operations."""
    dot = (d_weights * routes.weights).sum(1, keepdim=True)
    rest = torch.zeros_like(logits) if routing.normalised else -torch.softmax(logits, 1) * dot
    return rest.scatter_(1, routes.experts, routes.weights * (d_weights - dot))
