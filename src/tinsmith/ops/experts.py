"""A mixture's experts and an adapter's parts on them, as values: what is computed with them is `mixture.py`'s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinsmith.ops.linear import Linear, LowRank


@dataclass(slots=True, eq=False, weakref_slot=True)
class Mlp:
    """A gated MLP: the whole of a dense layer's, or one expert."""

    gate_up: Linear
    down: Linear


ExpertParts = tuple[LowRank | None, LowRank | None]
"""An adapter's parts on an expert's gate_up and down."""
PartsOf = Callable[[int], ExpertParts]
"""By expert."""
