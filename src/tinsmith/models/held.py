"""Memory of a frozen base in a decoder, counted from its tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinsmith.models.decoder import HEAD_PLACE, Decoder
from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Linear

_FP32 = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBase:
    """Bytes of a base, each published tensor once; a tied head's copy of the embedding is not counted."""

    linears: int
    """Bytes of the layers' linear weights, which quantisation reduces."""
    others: int
    """Bytes of embedding and separate head, fp32 or bf16, and of norms and biases, always fp32."""
    linear_weights: int
    """Number of weights of the layers' linear steps."""
    other_weights: int
    """Number of all other weights."""

    @property
    def whole(self) -> int:
        """Total bytes."""
        return self.linears + self.others

    @property
    def linears_to_fp32(self) -> float:
        """Ratio of the linear weights' bytes to their bytes in fp32."""
        return self.linears / (_FP32 * self.linear_weights)

    @property
    def whole_to_fp32(self) -> float:
        """Ratio of all bytes to those in fp32; bf16 gives one half."""
        return self.whole / (_FP32 * (self.linear_weights + self.other_weights))


def held_base(decoder: Decoder) -> HeldBase:
    """Count the bytes of a decoder's base."""
    layers = {place: one for place, one in decoder.linears().items() if place != HEAD_PLACE}
    mine = {id(base) for linear in layers.values() for base in linear.base}
    others = {id(slot.weight): slot.weight for slot in decoder.slots if id(slot.weight) not in mine}
    packed = [one for one in decoder.packed.values() if id(one) not in mine]
    return HeldBase(
        linears=sum(_bytes(linear) for linear in layers.values()),
        others=sum(weight.value.nbytes for weight in others.values()) + sum(one.nbytes for one in packed),
        linear_weights=sum(linear.in_size * linear.out_size for linear in layers.values()),
        other_weights=sum(weight.value.numel() for weight in others.values()) + sum(math.prod(p.shape) for p in packed),
    )


def _bytes(linear: Linear) -> int:
    return sum(base.value.nbytes if isinstance(base, Weight) else base.nbytes for base in linear.base)
