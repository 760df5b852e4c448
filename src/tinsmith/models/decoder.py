"""Decoder: the sequence of steps and their weights, written once for sampling and training.

RMSNorm, rotary attention with grouped keys, gated MLP, pre-norm residuals: Llama, Mistral, Qwen2/2.5 (biased q, k, v),
Qwen3 (normed q and k), and mixtures of gated MLPs: Qwen3-MoE, and OLMoE (q and k normed over all heads). `steps.py`
implements the steps, and `ops` their arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from tinsmith.models.config import DecoderConfig
from tinsmith.models.in_turn import RowsInTurn, held_as_published
from tinsmith.models.slots import Slot, views
from tinsmith.ops.experts import Mlp
from tinsmith.ops.functions import Weight
from tinsmith.ops.kernels import HeadShape, Kernels, Rope
from tinsmith.ops.linear import Linear, LowRank, refresh_norm
from tinsmith.ops.packed import Packed
from tinsmith.ops.routing import Routing


class Site(StrEnum):
    """Linear steps of a layer, and the head."""

    QKV = "qkv"
    O = "o"  # noqa: E741
    ROUTER = "router"
    GATE_UP = "gate_up"
    DOWN = "down"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Place:
    """Linear step: its layer (-1 for the head) and site, and in a mixture its expert."""

    layer: int
    site: Site
    expert: int = -1
    """Number of the expert; -1 outside a mixture."""


HEAD_PLACE = Place(-1, Site.HEAD)


def linear_shapes(config: DecoderConfig, n: int) -> dict[Place, tuple[int, tuple[int, ...]]]:
    """Return the sizes of each linear step of layer n in reading order: (in, widths of its matrices)."""
    hidden, q, kv = config.hidden_size, config.q_size, config.kv_size
    shapes: dict[Place, tuple[int, tuple[int, ...]]] = {
        Place(n, Site.QKV): (hidden, (q, kv, kv)),
        Place(n, Site.O): (q, (hidden,)),
    }
    inner, experts = config.intermediate_size, [-1]
    if config.mixture is not None and config.sparse(n):
        inner, experts = config.mixture.expert_size, list(range(config.mixture.num_experts))
        shapes[Place(n, Site.ROUTER)] = (hidden, (config.mixture.num_experts,))
    for e in experts:
        shapes[Place(n, Site.GATE_UP, e)] = (hidden, (inner, inner))
        shapes[Place(n, Site.DOWN, e)] = (inner, (hidden,))
    return shapes


@dataclass(slots=True, eq=False)
class Layer:
    """Weights of one block: a dense MLP, or a router and the experts of a mixture."""

    input_norm: Weight
    qkv: Linear
    o: Linear
    post_norm: Weight
    mlps: tuple[Mlp, ...]
    """Dense MLP alone, or every expert in order."""
    router: Linear | None = None
    """Router of a mixture: one logit per expert."""
    q_norm: Weight | None = None
    k_norm: Weight | None = None

    @property
    def qk_norms(self) -> tuple[Weight, Weight] | None:
        """Gains of q and k, if the family has them."""
        return None if self.q_norm is None or self.k_norm is None else (self.q_norm, self.k_norm)

    def linears(self, n: int) -> dict[Place, Linear]:
        """Return the linear steps by place, in reading order; `n` is the layer's number."""
        places = {Place(n, Site.QKV): self.qkv, Place(n, Site.O): self.o}
        if self.router is not None:
            places[Place(n, Site.ROUTER)] = self.router
        for e, mlp in enumerate(self.mlps):
            places[Place(n, Site.GATE_UP, self.expert(e))] = mlp.gate_up
            places[Place(n, Site.DOWN, self.expert(e))] = mlp.down
        return places

    def expert(self, index: int) -> int:
        """Return the expert number of an MLP of this layer in a `Place`; -1 in a dense layer."""
        return -1 if self.router is None else index

    def with_linears(self, change: Callable[[Linear], Linear]) -> Layer:
        """Return a copy with other linear steps, replaced in reading order."""
        return replace(
            self,
            qkv=change(self.qkv),
            o=change(self.o),
            router=None if self.router is None else change(self.router),
            mlps=tuple(Mlp(change(mlp.gate_up), change(mlp.down)) for mlp in self.mlps),
        )


class Steps(Protocol):
    """Implementation of the steps: recorded for training, or over a cache for sampling."""

    def embed(self, table: Weight | Packed, ids: Tensor) -> Tensor:
        """Return rows of the embedding."""
        ...

    def add_norm(self, x: Tensor, delta: Tensor | None, gain: Weight, eps: float) -> tuple[Tensor, Tensor]:
        """Return (x + delta, RMSNorm of it)."""
        ...

    def linear(self, x: Tensor, linear: Linear, place: Place) -> Tensor:
        """Compute the product with a weight and its adapters."""
        ...

    def rotate(self, qkv: Tensor, shape: HeadShape, rope: Rope, gains: tuple[Weight, Weight, float] | None) -> Tensor:
        """Apply head norms and rotation."""
        ...

    def attend(self, qkv: Tensor, shape: HeadShape, layer: int) -> Tensor:
        """Compute causal attention; `layer` counts from the decoder's own first one."""
        ...

    def gate(self, gate_up: Tensor) -> Tensor:
        """Compute silu(gate) * up."""
        ...

    def mix(self, x: Tensor, logits: Tensor, layer: Layer, routing: Routing, n: int) -> Tensor:
        """Pass each row through the experts that its router logits choose; `n` is the layer's number."""
        ...

    def layer(self, compute: OneLayer, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        """Run a layer's steps in order."""
        ...


OneLayer = Callable[[Steps, Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""Function that runs one layer: maps the residual stream and a pending addend to those after the layer."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Decoder:
    """Weights of a model, or of a stage (a run of layers), with the kernels that compute on them."""

    config: DecoderConfig
    kernels: Kernels
    embedding: Weight | Packed
    """[V, H]; no rows in a stage that does not begin the model."""
    layers: tuple[Layer, ...]
    final_norm: Weight
    """[H]; empty in a stage that does not end the model."""
    head: Linear
    """[H, V]; a tied head is a copy of the embedding, updated after every change of it, or the embedding itself if that
    is in published form. No columns in a stage that does not end the model."""
    rope: Rope
    slots: tuple[Slot, ...]
    """Every published tensor in full precision; a tied head has no slot of its own."""
    first: int = 0
    """Number of its first layer in the model."""
    packed: Mapping[str, Packed] = field(default_factory=dict[str, Packed])
    """Every matrix in its published form."""

    @property
    def shape(self) -> HeadShape:
        """Heads of every layer."""
        c = self.config
        return HeadShape(heads=c.num_heads, kv_heads=c.num_kv_heads, head_dim=c.head_dim)

    def hidden(self, steps: Steps, ids: Tensor) -> Tensor:
        """Return normalised hidden states of every row, [rows, H]: the input of the head."""
        x, delta = self.through(steps, self.enter(steps, ids))
        return steps.add_norm(x, delta, self.final_norm, self.config.norm_eps)[1]

    def enter(self, steps: Steps, ids: Tensor) -> Tensor:
        """Return the first layer's input for every row, [rows, H]."""
        return steps.embed(self.embedding, ids)

    def through(self, steps: Steps, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Run all layers; return the residual stream and the last layer's pending addend, [rows, H] each."""
        delta = None
        for i in range(len(self.layers)):
            x, delta = steps.layer(partial(self._layer, i), x, delta)
        return x, delta

    def _layer(self, i: int, steps: Steps, x: Tensor, delta: Tensor | None) -> tuple[Tensor, Tensor]:
        eps, shape, layer, n = self.config.norm_eps, self.shape, self.layers[i], self.first + i
        norms, gains = layer.qk_norms, None
        x, h = steps.add_norm(x, delta, layer.input_norm, eps)
        h = steps.linear(h, layer.qkv, Place(n, Site.QKV))
        if norms is not None and self.config.qk_norm_whole:
            h = self._normed_whole(steps, h, norms)
        elif norms is not None:
            gains = (*norms, eps)
        h = steps.rotate(h, shape, self.rope, gains)
        h = steps.attend(h, shape, i)
        h = steps.linear(h, layer.o, Place(n, Site.O))
        x, h = steps.add_norm(x, h, layer.post_norm, eps)
        return x, self._mlp(steps, h, layer, n)

    def _normed_whole(self, steps: Steps, qkv: Tensor, norms: tuple[Weight, Weight]) -> Tensor:
        """Return [q | k | v] with q and k normalised over all their heads together."""
        c = self.config
        q, k, v = qkv.split([c.q_size, c.kv_size, c.kv_size], dim=1)
        q = steps.add_norm(q.contiguous(), None, norms[0], c.norm_eps)[1]
        k = steps.add_norm(k.contiguous(), None, norms[1], c.norm_eps)[1]
        return torch.cat([q, k, v], dim=1)

    def _mlp(self, steps: Steps, h: Tensor, layer: Layer, n: int) -> Tensor:
        mixture = self.config.mixture
        if layer.router is None or mixture is None:
            (mlp,) = layer.mlps
            h = steps.linear(h, mlp.gate_up, Place(n, Site.GATE_UP))
            return steps.linear(steps.gate(h), mlp.down, Place(n, Site.DOWN))
        logits = steps.linear(h, layer.router, Place(n, Site.ROUTER))
        routing = Routing(active=mixture.num_active, normalised=mixture.normalised)
        return steps.mix(h, logits, layer, routing, n)

    def linears(self) -> dict[Place, Linear]:
        """Every linear step by place, in reading order."""
        places: dict[Place, Linear] = {}
        for n, layer in enumerate(self.layers, self.first):
            places.update(layer.linears(n))
        if self.head.out_size:
            places[HEAD_PLACE] = self.head
        return places

    def refresh_norms(self, low: Mapping[Place, LowRank]) -> None:
        """Update DoRA's norms, which an adapter derives from its weights and the base.

        This is called after every change of the adapter's weights, before their next use.
        """
        linears = self.linears()
        for place, part in low.items():
            refresh_norm(self.kernels, linears[place], part)

    def held(self, weight: Weight) -> Weight:
        """Return a copy of one of its weights in full precision, for training."""
        return Weight(weight.value.to(torch.float32, copy=True))

    def published(self) -> RowsInTurn:
        """Return the published tensors, each once: fp32 ones share the weights' memory, others widen on access."""
        return held_as_published({**views(self.slots), **self.packed})

    def refresh_tied_head(self) -> None:
        """Copy the embedding into a tied head."""
        head = self.head.base[0]
        if self.config.tied and isinstance(head, Weight) and isinstance(self.embedding, Weight):
            head.value.copy_(self.embedding.value.t())
