"""Unit of gradient: the part of a request whose gradient is one chain of sums, whoever computes it."""

from __future__ import annotations

from enum import StrEnum


class GradientUnit(StrEnum):
    """Grouping of a request's datums into units; each has bits of its own, and keeps them."""

    TREE = "tree"
    """Datums that begin with the same tokens are a prefix tree: what they share is computed once."""
    DATUM = "datum"
    """Every datum is computed by itself."""
