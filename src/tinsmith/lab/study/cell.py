"""One run of a study: which experiment, with what changed, in which folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tinsmith.lab.experiment.experiment import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a study."""

    experiment: Experiment
    overrides: Mapping[str, str]
    folder: Path
