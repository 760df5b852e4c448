"""`dead_groups`: RL on a model that always fails at the same questions, on one that fails by chance, and remedies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.progress import Say
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, conduct_study
from tinsmith.lab.study.results import DRAWS, Draws, seconds_in
from tinsmith.lab.study.task_study import minutes_of
from tinsmith.studies.dead_groups.page import dead_page, dead_sentences
from tinsmith.studies.dead_groups.results import read_found
from tinsmith.studies.dead_groups.settings import dead_settings


def run_dead_groups(
    given: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = DRAWS
) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = dead_settings(given)

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(settings.study, settings.study.arms)
        stages.report(tuned)
        found, arms = read_found(settings, tuned, draws)
        sentences = dead_sentences(found)
        seconds = {
            read.words: seconds_in([one.run for one in read.reads]) for read in arms.reads.values()
        }
        return Outcome(
            found=found,
            sentences=sentences,
            seconds=seconds,
            page=dead_page(found, sentences, seconds),
        )

    return conduct_study(settings.study, say, conduct, pace=minutes_of, run=run)
