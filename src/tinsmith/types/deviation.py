"""Deliberate faults of an engine, which show that the checks detect them."""

from __future__ import annotations

from enum import StrEnum


class Deviation(StrEnum):
    """Deliberate fault of an engine; each occurs in software that is in use."""

    NONE = "none"
    """No fault."""
    MERGED_ADAPTER = "merged_adapter"
    """The sampler computes with base and adapter folded into one matrix, the trainer with both."""
    STOCK_SILU = "stock_silu"
    """The sampler's SiLU is torch's own, the trainer's is not."""
    SHARED_RNG = "shared_rng"
    """Samples draw from one generator in the order they are computed, not from (seed, sample, position, token)."""
    REORDERED_GRADIENT = "reordered_gradient"
    """The first datum of a request is computed last, and its gradient added last."""
