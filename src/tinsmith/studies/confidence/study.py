"""`confidence`: GRPO on Countdown, with and without a penalty on being sure of an answer before it was reasoned out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import RunCells
from tinsmith.lab.study.one_stage import run_one_stage
from tinsmith.lab.study.results import DRAWS, Draws
from tinsmith.studies.confidence.page import confidence_page, confidence_sentences
from tinsmith.studies.confidence.results import read_found
from tinsmith.studies.confidence.settings import confidence_settings


def run_confidence(given: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = DRAWS) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = confidence_settings(given)
    return run_one_stage(
        settings.study,
        say,
        read=lambda tuned: read_found(settings, tuned, draws),
        sentences=confidence_sentences,
        page=confidence_page,
        run=run,
    )
