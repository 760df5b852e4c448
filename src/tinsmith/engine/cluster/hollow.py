"""Decoder with shapes only: the server's stand-in for a base that its workers hold.

Adapters, their optimizer and their files need the layout of every tensor and none of the base's values: everything that
depends on values (DoRA's norms, fresh magnitudes, a copy of the base that is trained whole) is computed by a worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch

from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder, Layer, Place
from tinsmith.models.names import expected_tensors
from tinsmith.ops.functions import Weight
from tinsmith.ops.kernels import Kernels, Rope
from tinsmith.ops.linear import Linear, LowRank, Nf4Base
from tinsmith.types.datum import FloatArray


@dataclass(slots=True, eq=False, kw_only=True)
class HollowDecoder(Decoder):
    """Decoder without weights; it computes nothing."""

    served: str
    """Served name of the base."""
    quantised: bool

    def refresh_norms(self, low: Mapping[Place, LowRank]) -> None:
        """Do nothing: workers derive the norms when weights arrive."""

    def held(self, weight: Weight) -> Weight:
        """Allocate memory for a weight of the base; its values arrive later."""
        return Weight(torch.zeros(weight.value.shape, device=self.kernels.device))


def hollow_decoder(config: DecoderConfig, kernels: Kernels, *, served: str, quantised: bool) -> HollowDecoder:
    """Return the hollow decoder of a served base."""
    weights = {name: torch.empty(s, device="meta") for name, s in expected_tensors(config).items()}
    built = build_decoder(config, weights, cast("Kernels", _Shapes(kernels)))
    layers = tuple(_as_nf4(layer) for layer in built.layers) if quantised else built.layers
    return HollowDecoder(
        config=config,
        kernels=kernels,
        embedding=built.embedding,
        layers=layers,
        final_norm=built.final_norm,
        head=built.head,
        rope=built.rope,
        slots=built.slots,
        served=served,
        quantised=quantised,
    )


class _Shapes:
    """Kernels that only define the layout of tensors."""

    def __init__(self, kernels: Kernels) -> None:
        self.device = torch.device("meta")
        self.reads_bf16 = kernels.reads_bf16
        self.reads_packed = False
        self._kernels = kernels

    def rope(self, frequencies: FloatArray, positions: int) -> Rope:
        return self._kernels.rope(frequencies, positions)


def _as_nf4(layer: Layer) -> Layer:
    return replace(layer.with_linears(_nf4), router=layer.router)


def _nf4(linear: Linear) -> Linear:
    nothing = torch.empty(0, device="meta")
    base = tuple(Nf4Base(nothing, nothing, nothing, nothing, width, linear.in_size) for width in linear.widths)
    return replace(linear, base=base)
