"""Interface for progress reports, independent of their display."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receiver of the progress of long work."""

    def begin(self, what: str, total: int | None) -> None:
        """Begin a stage of `total` steps (None if unknown)."""
        ...

    def advance(self, steps: int = 1) -> None:
        """Report that `steps` more are done."""
        ...


class Silent:
    """Progress that is not displayed."""

    def begin(self, what: str, total: int | None) -> None:
        """Do nothing."""

    def advance(self, steps: int = 1) -> None:
        """Do nothing."""
