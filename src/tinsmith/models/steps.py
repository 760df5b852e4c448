"""Implementation of the decoder's steps: recorded for training, or over a paged cache for sampling.

Both call the same kernels on the same operands row by row, which is why a sampled token's log-probability is the
trainer's, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from tinsmith.models.decoder import HEAD_PLACE, Decoder, Layer, OneLayer, Place, Site
from tinsmith.models.routes import RouteRecord
from tinsmith.ops.experts import ExpertParts
from tinsmith.ops.forest import Forest, Reads
from tinsmith.ops.functions import (
    AddRmsNorm,
    Attention,
    Embed,
    Recomputed,
    Rotate,
    SiluGate,
    Weight,
    attended,
    embedded,
)
from tinsmith.ops.head import HeadLogprobs
from tinsmith.ops.kernels import HeadGains, HeadShape, Kernels, Rope, Turn, WithPair
from tinsmith.ops.linear import Linear, LinearStep, LowRank, Run, forward
from tinsmith.ops.mixture import MixtureRun, MixtureStep, mixed
from tinsmith.ops.packed import Packed
from tinsmith.ops.paging import Pages, Rows
from tinsmith.ops.routing import Routing

LowRanks = Mapping[Place, LowRank]
"""Low-rank parts of an adapter by place; places without one compute with the base alone."""


@dataclass(slots=True)
class TrainSteps:
    """Steps on whole trees with one adapter, recorded by autograd if it is enabled."""

    kernels: Kernels
    forest: Forest
    adapter: LowRanks = field(default_factory=dict[Place, LowRank])
    routed: RouteRecord | None = None
    """Observer of the routes of every mixture."""
    recompute: bool = False
    """True to recompute a layer's activations in its backward pass instead of holding them. The output of attention is
    held: for long rows it is most of the work but only one of many tensors."""
    _attended: dict[int, WithPair] = field(default_factory=dict[int, WithPair])

    def layer(self, compute: OneLayer, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        if not self.recompute:
            return compute(self, x, delta)
        first = partial(compute, self)
        again = partial(compute, replace(self, routed=None))  # its routes were counted in the first pass
        return Recomputed.apply(x, delta, first, again)  # pyright: ignore[reportReturnType]

    def embed(self, table: Weight | Packed, ids: Tensor) -> Tensor:
        anchor = torch.empty(0, requires_grad=True)
        return Embed.apply(anchor, self.kernels, table, ids, self.forest)  # pyright: ignore[reportReturnType]

    def add_norm(self, x: Tensor, delta: Tensor | None, gain: Weight, eps: float) -> tuple[Tensor, Tensor]:
        return AddRmsNorm.apply(x, delta, self.kernels, gain, eps, self.forest)  # pyright: ignore[reportReturnType]

    def linear(self, x: Tensor, linear: Linear, place: Place) -> Tensor:
        low = self.adapter.get(place)
        return LinearStep.apply(x, self.kernels, linear, low, self.forest.units)  # pyright: ignore[reportReturnType]

    def rotate(self, qkv: Tensor, shape: HeadShape, rope: Rope, gains: tuple[Weight, Weight, float] | None) -> Tensor:
        return Rotate.apply(qkv, self.kernels, shape, self.forest, rope, gains)  # pyright: ignore[reportReturnType]

    def attend(self, qkv: Tensor, shape: HeadShape, layer: int) -> Tensor:
        known = self._attended.pop(layer, None)
        if known is None and self.recompute:
            known = self._attended[layer] = attended(self.kernels, qkv, shape, self.forest)
        return Attention.apply(qkv, self.kernels, shape, self.forest, known)  # pyright: ignore[reportReturnType]

    def gate(self, gate_up: Tensor) -> Tensor:
        return SiluGate.apply(gate_up, self.kernels)  # pyright: ignore[reportReturnType]

    def mix(self, x: Tensor, logits: Tensor, layer: Layer, routing: Routing, n: int) -> Tensor:
        observe = None if self.routed is None else partial(self.routed.see, n)
        parts, units = partial(expert_parts, self.adapter, n), self.forest.units
        return MixtureStep.apply(x, logits, self.kernels, routing, layer.mlps, parts, units, observe)  # pyright: ignore[reportReturnType]


def target_logprobs(decoder: Decoder, steps: TrainSteps, ids: Tensor, reads: Reads) -> Tensor:
    """Return log p(target | ids up to its row) of every read, [reads]; int64 ids of every row."""
    h = decoder.hidden(steps, ids)
    low = steps.adapter.get(HEAD_PLACE)
    return HeadLogprobs.apply(h, steps.kernels, decoder.head, low, reads, steps.forest.units)  # pyright: ignore[reportReturnType]


@dataclass(slots=True)
class SampleSteps:
    """Steps on new rows of many sequences over their caches; each run of rows has its own adapter."""

    kernels: Kernels
    rows: Rows
    pages: tuple[Pages, ...]
    """Pages per layer."""
    runs: tuple[tuple[int, int, LowRanks], ...]
    """(first row, last row + 1, adapter), covering all rows."""
    routed: RouteRecord | None = None
    """Observer of the routes of every mixture."""

    def layer(self, compute: OneLayer, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        return compute(self, x, delta)

    def embed(self, table: Weight | Packed, ids: Tensor) -> Tensor:
        return embedded(self.kernels, table, ids)

    def add_norm(self, x: Tensor, delta: Tensor | None, gain: Weight, eps: float) -> tuple[Tensor, Tensor]:
        total, y, _ = self.kernels.add_rms_norm(x, delta, gain.value, eps)
        return total, y

    def linear(self, x: Tensor, linear: Linear, place: Place) -> Tensor:
        return forward(self.kernels, x, linear, tuple(Run(b, e, low.get(place)) for b, e, low in self.runs))

    def rotate(self, qkv: Tensor, shape: HeadShape, rope: Rope, gains: tuple[Weight, Weight, float] | None) -> Tensor:
        from_gains = None if gains is None else HeadGains(q=gains[0].value, k=gains[1].value, eps=gains[2])
        return self.kernels.rotate(qkv, Turn(shape, self.rows.positions, rope, from_gains))

    def attend(self, qkv: Tensor, shape: HeadShape, layer: int) -> Tensor:
        self.kernels.store_keys(qkv, shape, self.rows, self.pages[layer])
        return self.kernels.attention(qkv, shape, self.rows, self.pages[layer], want_stats=False)[0]

    def gate(self, gate_up: Tensor) -> Tensor:
        return self.kernels.silu_gate(gate_up)

    def mix(self, x: Tensor, logits: Tensor, layer: Layer, routing: Routing, n: int) -> Tensor:
        routes = self.kernels.route(logits, routing)
        if self.routed is not None:
            self.routed.see(n, logits, routes)
        runs = [MixtureRun(b, e, partial(expert_parts, low, n)) for b, e, low in self.runs]
        return mixed(self.kernels, x, routes, layer.mlps, runs)


def expert_parts(low: LowRanks, layer: int, expert: int) -> ExpertParts:
    """Return an adapter's parts on one expert of a layer."""
    return low.get(Place(layer, Site.GATE_UP, expert)), low.get(Place(layer, Site.DOWN, expert))
