"""Which arithmetic a process computes with, and where. Chosen before any model exists."""

from __future__ import annotations

from enum import StrEnum


class Arithmetic(StrEnum):
    """What is promised about bits; `docs/ops.md` says how."""

    CANONICAL = "canonical"
    """Same bits for any batch, neighbours, cache, micro-batch, thread count and CPU."""
    INVARIANT = "invariant"
    """Same bits for any batch and micro-batch on one GPU model."""
    FAST = "fast"
    """Nothing: stock torch operations, for comparison."""


class Isa(StrEnum):
    """Instruction sets the native kernels are compiled for; none of them changes a bit."""

    SCALAR = "scalar"
    AVX2 = "avx2"
    AVX512 = "avx512"
    NEON = "neon"
