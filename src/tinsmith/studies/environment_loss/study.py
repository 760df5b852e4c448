"""`environment_loss`: GRPO in a small shell with a loss on what it answers, at four weights, and a control."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, Tuned, conduct_study
from tinsmith.lab.study.results import DRAWS, Draws, seconds_in
from tinsmith.lab.study.task_arms import read_runs
from tinsmith.lab.study.task_study import minutes_of
from tinsmith.lab.study.task_values import items_seen, values_of
from tinsmith.studies.environment_loss.page import environment_loss_page
from tinsmith.studies.environment_loss.reading import courses
from tinsmith.studies.environment_loss.results import WORDS, found_of, weighed, with_claims
from tinsmith.studies.environment_loss.settings import NONE, environment_loss_study
from tinsmith.studies.environment_loss.story import sentences


def run_environment_loss(
    given: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = DRAWS
) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    study = environment_loss_study(given)

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(study, study.arms)
        stages.report(tuned)
        return _outcome(study, tuned, draws)

    return conduct_study(study, say, conduct, pace=minutes_of, run=run)


def _outcome(study: Study, tuned: Tuned, draws: Draws) -> Outcome:
    reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
    runs = {name: courses(read) for name, read in reads.items()}
    arms = [weighed(name, read, runs[name], draws) for name, read in reads.items()]
    found = found_of(values_of(study, reads), arms)
    found = with_claims(found, reads, items_seen(reads[NONE]), draws)
    told = sentences(found)
    seconds = {name: seconds_in([one.run for one in read.reads]) for name, read in reads.items()}
    shown = {WORDS[name]: one for name, one in seconds.items()}
    return Outcome(found=found, sentences=told, seconds=seconds, page=environment_loss_page(found, told, runs, shown))
