"""A decoder of shapes alone: what a server holds of a base that its workers have.

Adapters, their optimizer and their files need to know where every tensor lies, and nothing of the base's values: what
depends on these (DoRA's norms, fresh magnitudes, a copy of the base that is trained whole) comes from a worker.
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
    """Nothing is computed on it."""

    served: str
    """The base's name, as served."""
    quantised: bool

    def refresh_norms(self, low: Mapping[Place, LowRank]) -> None:
        """Nothing: norms are derived where the base is, whenever weights arrive there."""

    def held(self, weight: Weight) -> Weight:
        """Room for a weight of the base, in memory; its values are still to come."""
        return Weight(torch.zeros(weight.value.shape, device=self.kernels.device))


def hollow_decoder(config: DecoderConfig, kernels: Kernels, *, served: str, quantised: bool) -> HollowDecoder:
    """Return the decoder of a base that is served by this name."""
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
    """Kernels that only say where tensors lie: nowhere."""

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
