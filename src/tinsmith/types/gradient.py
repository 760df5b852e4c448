"""Gradient unit: the part of a request whose gradient is one chain of sums, whoever computes it."""

from __future__ import annotations

from enum import StrEnum


class GradientUnit(StrEnum):
    """Grouping of a request's datums into units; each gives bits of its own."""

    TREE = "tree"
    """Prefix trees: the common prefix of datums is computed once."""
    DATUM = "datum"
    """Single datums."""
