"""Arithmetic modes of a process, the CPUs that support them, units of gradient, and the forms of a base in memory."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Hold(StrEnum):
    """Form of a base's matrices in memory; the choice changes no bit of a result."""

    PUBLISHED = "published"
    """Form in its file, widened for each product; fp32 if the kernels do not widen that type."""
    FP32 = "fp32"


class GradientUnit(StrEnum):
    """Grouping of a request's datums into units, whose gradient is one chain of sums each; each gives its own bits."""

    TREE = "tree"
    """Prefix trees: the common prefix of datums is computed once."""
    DATUM = "datum"
    """Single datums."""


class Arithmetic(StrEnum):
    """Guarantee of equal bits; `docs/ops.md` describes each."""

    CANONICAL = "canonical"
    """Same bits for any batch, neighbours, cache, micro-batch, thread count, CPU and GPU."""
    INVARIANT = "invariant"
    """Same bits for any batch and micro-batch on one GPU model."""
    FAST = "fast"
    """No guarantee: stock torch operations, for comparison."""


SUPPORTED: Final[Mapping[Arithmetic, tuple[str, ...]]] = MappingProxyType(
    {Arithmetic.CANONICAL: ("cpu", "cuda"), Arithmetic.INVARIANT: (), Arithmetic.FAST: ("cpu", "cuda")}
)
"""Kinds of devices with kernels that keep an arithmetic's promise."""


def supported(arithmetic: Arithmetic, device: str) -> bool:
    """True if such kernels exist for "cpu", "cuda" or "cuda:N", whether or not the device is present."""
    kind, colon, index = device.partition(":")
    numbered = kind != "cpu" and index.isdecimal()
    return kind in SUPPORTED[arithmetic] and (not colon or numbered)


def supported_words() -> str:
    """Return the pairs of SUPPORTED as a list in words."""
    return ", ".join(f"{one} on {kind}" for one, kinds in SUPPORTED.items() for kind in kinds)


class Isa(StrEnum):
    """Instruction sets the native kernels are compiled for; none of them changes a bit."""

    SCALAR = "scalar"
    AVX2 = "avx2"
    AVX512 = "avx512"
    NEON = "neon"
