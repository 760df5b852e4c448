"""What a comparison of runs shows."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from tinsmith.pages.document import Document


@dataclass(frozen=True, slots=True)
class Comparison:
    """`sentences` say what happened, which claims hold, and what could not be read."""

    page: Document
    table: Table
    """For a terminal."""
    sentences: tuple[str, ...]
