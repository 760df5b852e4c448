"""What every reward has: named terms, and their total."""

from __future__ import annotations

from typing import Final, Protocol

LARGEST_REWARD: Final = 1e15
"""Of a reward, a metric or a reward's setting, whatever its sign: sums and squares of more leave the range of
numbers in training."""


class Terms(Protocol):
    """One rollout's reward; its terms are its attributes."""

    def names(self) -> tuple[str, ...]:
        """Return the terms' names in their fixed order."""
        ...

    @property
    def total(self) -> float:
        """The reward."""
        ...
