"""`template_collapse`: RL with an entropy bonus until answers no longer depend on what was asked, and remedies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import RunCells
from tinsmith.lab.study.one_stage import run_one_stage
from tinsmith.lab.study.results import DRAWS, Draws
from tinsmith.studies.template_collapse.page import collapse_page, collapse_sentences
from tinsmith.studies.template_collapse.results import read_found
from tinsmith.studies.template_collapse.settings import collapse_settings


def run_template_collapse(
    given: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = DRAWS
) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = collapse_settings(given)
    return run_one_stage(
        settings.study,
        say,
        read=lambda tuned: read_found(settings, tuned, draws),
        sentences=collapse_sentences,
        page=collapse_page,
        run=run,
    )
