"""`pass_at_k`: a base, SFT, GRPO and its control on questions with a tool, each asked many times."""

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
from tinsmith.studies.pass_at_k.page import pass_at_k_page
from tinsmith.studies.pass_at_k.reading import read_samples
from tinsmith.studies.pass_at_k.results import measured, with_claims, with_signs
from tinsmith.studies.pass_at_k.settings import ARMS, GRPO, pass_at_k_study
from tinsmith.studies.pass_at_k.story import sentences


def run_pass_at_k(given: Mapping[str, str], say: Say, *, run: RunCells = run_cells, draws: Draws = DRAWS) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    study = pass_at_k_study(given)

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(study, study.arms)
        stages.report(tuned)
        return _outcome(study, tuned, draws)

    return conduct_study(study, say, conduct, pace=minutes_of, run=run)


def _outcome(study: Study, tuned: Tuned, draws: Draws) -> Outcome:
    reads = {name: read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()}
    samples = {name: read_samples(read) for name, read in reads.items()}
    found = with_signs(measured(values_of(study, reads), samples, draws))
    found = with_claims(found, samples, reads, items_seen(reads[GRPO]), draws)
    told = sentences(found)
    words = {arm.name: arm.words for arm in ARMS}
    seconds = {name: seconds_in([one.run for one in read.reads]) for name, read in reads.items()}
    return Outcome(
        found=found,
        sentences=told,
        seconds=seconds,
        page=pass_at_k_page(found, told, {words[name]: one for name, one in seconds.items()}),
    )
