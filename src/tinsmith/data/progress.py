"""Progress of long work, reported without knowing who looks."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receiver of the progress of long work."""

    def begin(self, what: str, total: int | None) -> None:
        """Begin a stage of `total` steps (None: nobody knows)."""
        ...

    def advance(self, steps: int = 1) -> None:
        """Say that `steps` more are done."""
        ...


class Silent:
    """Nobody looks."""

    def begin(self, what: str, total: int | None) -> None:
        """Say nothing."""

    def advance(self, steps: int = 1) -> None:
        """Say nothing."""
