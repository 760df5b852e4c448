"""`exploration`: GRPO on errands in small houses, between whose batches visits without an errand are interleaved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import RunCells
from tinsmith.lab.study.one_stage import run_one_stage
from tinsmith.lab.study.results import DRAWS, Draws
from tinsmith.studies.exploration.page import exploration_page
from tinsmith.studies.exploration.results import read_found
from tinsmith.studies.exploration.settings import exploration_study
from tinsmith.studies.exploration.story import sentences


def run_exploration(given: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = DRAWS) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    study = exploration_study(given)
    return run_one_stage(
        study,
        say,
        read=lambda tuned: read_found(study, tuned, draws),
        sentences=sentences,
        page=exploration_page,
        run=run,
    )
