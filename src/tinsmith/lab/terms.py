"""What every reward has: named terms, and their total."""

from __future__ import annotations

from typing import Protocol


class Terms(Protocol):
    """One rollout's reward; its terms are its attributes."""

    def names(self) -> tuple[str, ...]:
        """Return the terms' names in their fixed order."""
        ...

    @property
    def total(self) -> float:
        """The reward."""
        ...
