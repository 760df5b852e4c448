"""What the literature saw of a method, and whether a study saw it too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Something that the literature saw, and whether it was seen here."""

    expected: str
    came_out: bool
    told: str
    """The figures."""
