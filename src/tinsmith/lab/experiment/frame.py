"""What every run has beside its loop's settings: a kind, and for which size of model its numbers are."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.lab.experiment.at import At
from tinsmith.lab.runs.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFrame:
    """The keys of a run that are no loop's settings; a subject adds its own."""

    kind: Kind
    at: At = At.NANO
    """Whose settings: nano (the nano base on two cores), small (a small pretrained model), seed (the source notes)."""
