"""`dead_groups`: RL on a model that always fails at the same questions, on one that fails by chance, and remedies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import RunCells
from tinsmith.lab.study.one_stage import run_one_stage
from tinsmith.lab.study.results import DRAWS, Draws
from tinsmith.studies.dead_groups.page import dead_page, dead_sentences
from tinsmith.studies.dead_groups.results import read_found
from tinsmith.studies.dead_groups.settings import dead_settings


def run_dead_groups(given: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = DRAWS) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = dead_settings(given)
    return run_one_stage(
        settings.study,
        say,
        read=lambda tuned: read_found(settings, tuned, draws),
        sentences=dead_sentences,
        page=dead_page,
        run=run,
    )
