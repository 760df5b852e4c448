"""The decoder: which steps, in which order, with which weights. Written once, for sampling and for training.

RMSNorm, rotary attention with grouped keys, gated MLP, pre-norm residuals: Llama, Mistral, Qwen2/2.5 (biased q, k, v)
and Qwen3 (normed q and k). What a step computes is `steps.py`'s business, and how, `ops`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from torch import Tensor

from tinsmith.models.config import DecoderConfig
from tinsmith.models.slots import Slot
from tinsmith.ops.functions import Weight
from tinsmith.ops.kernels import HeadShape, Kernels, Rope
from tinsmith.ops.linear import Linear, LowRank, refresh_norm


class Site(StrEnum):
    """The linear steps of a layer, and the head."""

    QKV = "qkv"
    O = "o"  # noqa: E741
    GATE_UP = "gate_up"
    DOWN = "down"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class Place:
    """One linear step: its layer (-1 for the head) and site."""

    layer: int
    site: Site


HEAD_PLACE = Place(-1, Site.HEAD)


@dataclass(slots=True, eq=False)
class Layer:
    """The weights of one block."""

    input_norm: Weight
    qkv: Linear
    o: Linear
    post_norm: Weight
    gate_up: Linear
    down: Linear
    q_norm: Weight | None = None
    k_norm: Weight | None = None


class Steps(Protocol):
    """How each step is carried out: recorded for training, or over a cache for sampling."""

    def embed(self, table: Weight, ids: Tensor) -> Tensor:
        """Rows of the embedding."""
        ...

    def add_norm(
        self, x: Tensor, delta: Tensor | None, gain: Weight, eps: float
    ) -> tuple[Tensor, Tensor]:
        """(x + delta, RMSNorm of it)."""
        ...

    def linear(self, x: Tensor, linear: Linear, place: Place) -> Tensor:
        """The product with a weight and its adapters."""
        ...

    def rotate(
        self, qkv: Tensor, shape: HeadShape, rope: Rope, gains: tuple[Weight, Weight, float] | None
    ) -> Tensor:
        """Head norms and rotation."""
        ...

    def attend(self, qkv: Tensor, shape: HeadShape, layer: int) -> Tensor:
        """Causal attention; `layer` counts from the decoder's own first one."""
        ...

    def gate(self, gate_up: Tensor) -> Tensor:
        """silu(gate) * up."""
        ...


@dataclass(slots=True, eq=False)
class Decoder:
    """A model's weights with the kernels that compute on them; or a stage's, a run of the model's layers."""

    config: DecoderConfig
    kernels: Kernels
    embedding: Weight
    """[V, H]; no rows in a stage that does not begin the model."""
    layers: tuple[Layer, ...]
    final_norm: Weight
    """[H]; empty in a stage that does not end the model."""
    head: Linear
    """[H, V]; a tied head is a copy of the embedding, refreshed after every change of it. No columns in a stage that
    does not end the model."""
    rope: Rope
    slots: tuple[Slot, ...]
    """Every published tensor held in full precision; a tied head has none of its own."""
    first: int = 0
    """The number of its first layer in the model."""

    @property
    def shape(self) -> HeadShape:
        """Heads of every layer."""
        c = self.config
        return HeadShape(heads=c.num_heads, kv_heads=c.num_kv_heads, head_dim=c.head_dim)

    def hidden(self, steps: Steps, ids: Tensor) -> Tensor:
        """Normalised hidden states of every row, [rows, H]: what the head reads."""
        x, delta = self.through(steps, self.enter(steps, ids))
        return steps.add_norm(x, delta, self.final_norm, self.config.norm_eps)[1]

    def enter(self, steps: Steps, ids: Tensor) -> Tensor:
        """What the first layer reads of every row, [rows, H]."""
        return steps.embed(self.embedding, ids)

    def through(self, steps: Steps, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """All layers: the residual stream, and what the last of them has yet to add to it, [rows, H] each."""
        eps, shape, delta = self.config.norm_eps, self.shape, None
        for i, layer in enumerate(self.layers):
            n = self.first + i
            gains = (
                None
                if layer.q_norm is None or layer.k_norm is None
                else (layer.q_norm, layer.k_norm, eps)
            )
            x, h = steps.add_norm(x, delta, layer.input_norm, eps)
            h = steps.linear(h, layer.qkv, Place(n, Site.QKV))
            h = steps.rotate(h, shape, self.rope, gains)
            h = steps.attend(h, shape, i)
            h = steps.linear(h, layer.o, Place(n, Site.O))
            x, h = steps.add_norm(x, h, layer.post_norm, eps)
            h = steps.linear(h, layer.gate_up, Place(n, Site.GATE_UP))
            h = steps.gate(h)
            delta = steps.linear(h, layer.down, Place(n, Site.DOWN))
        return x, delta

    def linears(self) -> dict[Place, Linear]:
        """Every linear step by place, in reading order."""
        places: dict[Place, Linear] = {}
        for n, layer in enumerate(self.layers, self.first):
            places[Place(n, Site.QKV)] = layer.qkv
            places[Place(n, Site.O)] = layer.o
            places[Place(n, Site.GATE_UP)] = layer.gate_up
            places[Place(n, Site.DOWN)] = layer.down
        if self.head.out_size:
            places[HEAD_PLACE] = self.head
        return places

    def refresh_norms(self, low: Mapping[Place, LowRank]) -> None:
        """Bring what an adapter derives from its weights and the base, DoRA's norms, up to date.

        Called after every change of the adapter's weights, and before they are computed with.
        """
        linears = self.linears()
        for place, part in low.items():
            refresh_norm(self.kernels, linears[place], part)

    def held(self, weight: Weight) -> Weight:
        """A copy of one of its weights, to be trained."""
        return Weight(weight.value.clone())

    def refresh_tied_head(self) -> None:
        """Copy the embedding into a tied head."""
        head = self.head.base[0]
        if self.config.tied and isinstance(head, Weight):
            head.value.copy_(self.embedding.value.t())
