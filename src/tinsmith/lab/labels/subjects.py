"""What can be asked about a paper: its disruption or its novelty, and which labels answer it."""

from __future__ import annotations

from enum import StrEnum

from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.slices.rows import PaperRow


class Subject(StrEnum):
    """What a task asks about."""

    DISRUPTION = "disruption"
    """What later papers do with it; the label comes from its CD index."""
    NOVELTY = "novelty"
    """How unusual the pairs of journals are that it cites."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in their fixed order, in which every matrix and share of this floor stands."""
        classes = tuple(Disruption) if self is Subject.DISRUPTION else tuple(Novelty)
        return tuple(label.value for label in classes)

    @property
    def label_key(self) -> str:
        """The key of the label, in a slice's row and in an answer."""
        return f"{self.value}_label"

    def gold(self, row: PaperRow) -> str | None:
        """Return the row's label; None where it has none."""
        label = row.disruption_label if self is Subject.DISRUPTION else row.novelty_label
        return None if label is None else label.value
