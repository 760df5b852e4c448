"""Experts of a mixture and an adapter's parts on them, as values; `mixture.py` computes with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tinsmith.ops.functions import Weight
from tinsmith.ops.linear import Linear, LowRank
from tinsmith.ops.packed import Packed
from tinsmith.ops.routing import Dealt, Routes


@dataclass(slots=True, eq=False, weakref_slot=True)
class Mlp:
    """Gated MLP: that of a dense layer, or one expert."""

    gate_up: Linear
    down: Linear


ExpertParts = tuple[LowRank | None, LowRank | None]
"""Adapter parts on an expert's gate_up and down."""
PartsOf = Callable[[int], ExpertParts]
"""Adapter parts by expert."""


def held_whole(experts: Sequence[Mlp]) -> bool:
    """True if all experts can be computed in one call, since their bases are not decoded for each product."""
    linears = [linear for expert in experts for linear in (expert.gate_up, expert.down)]
    kinds = {type(linear.base[0]) for linear in linears}
    return kinds in ({Weight}, {Packed}) and all(linear.bias is None for linear in linears)


@dataclass(frozen=True, slots=True, eq=False)
class MixtureRows:
    """Rows by the experts that they take, with one adapter's parts on these."""

    routes: Routes
    deal: Dealt
    experts: Sequence[Mlp]
    parts: PartsOf


@dataclass(frozen=True, slots=True, eq=False)
class MixtureActivations:
    """Forward values for the backward pass of a mixture, one row per (row, expert) pair in the order of `Dealt`."""

    gate_up: Tensor
    """[pairs, 2 I]"""
    inner: Tensor
    """[pairs, I]: silu(gate) * up."""
    out: Tensor
    """[pairs, H]: output of the expert."""
    xa_up: Tensor
    """[pairs, ranks]: scaling x A of gate_up's adapter."""
    xa_down: Tensor
    """[pairs, ranks]: scaling x A of down's adapter."""
    direction_up: Tensor | None
    """[pairs, 2 I]: for DoRA with trained magnitudes, the values that they multiply."""
    direction_down: Tensor | None
    """[pairs, H]: the same for down."""

    @property
    def rooms(self) -> tuple[Tensor | None, ...]:
        """All arrays in this order."""
        return (self.gate_up, self.inner, self.out, self.xa_up, self.xa_down, self.direction_up, self.direction_down)

    @classmethod
    def empty(cls, mix: MixtureRows, device: torch.device) -> MixtureActivations:
        """Allocate them; every expert's parts have the shape of the first one's that a row takes."""
        up, down, pairs = mix.experts[0].gate_up, mix.experts[0].down, len(mix.deal.rows)

        def room(width: int) -> Tensor:
            return torch.empty(pairs, width, device=device)

        def ranks(low: LowRank | None) -> int:
            return 0 if low is None else low.a.value.shape[1]

        def direction(linear: Linear, low: LowRank | None) -> Tensor | None:
            magnitude = None if low is None else low.magnitude
            return None if magnitude is None or magnitude.grad is None else room(linear.out_size)

        low_up, low_down = mix.parts(mix.deal.taken[0][0])
        return cls(
            gate_up=room(up.out_size),
            inner=room(down.in_size),
            out=room(down.out_size),
            xa_up=room(ranks(low_up)),
            xa_down=room(ranks(low_down)),
            direction_up=direction(up, low_up),
            direction_down=direction(down, low_down),
        )
