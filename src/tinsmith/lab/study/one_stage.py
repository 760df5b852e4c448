"""A study of arms on one kept task that has a single stage: all of them are run, then read, then told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arm_gains import Arms
from tinsmith.lab.study.arms import Study
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, Tuned, conduct_study
from tinsmith.lab.study.results import Seconds, StudyValues, seconds_in
from tinsmith.lab.study.task_study import minutes_of
from tinsmith.pages.document import Document

F = TypeVar("F", bound=StudyValues)


def run_one_stage(
    study: Study,
    say: Say,
    *,
    read: Callable[[Tuned], tuple[F, Arms]],
    sentences: Callable[[F], tuple[str, ...]],
    page: Callable[[F, tuple[str, ...], Mapping[str, Seconds]], Document],
    run: RunCells,
) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    `read` reads the finished runs, `sentences` says what may be said of them, and `page` shows both.

    Raises:
        ConfigError, DataError: a run cannot begin or be read, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(study, study.arms)
        stages.report(tuned)
        found, arms = read(tuned)
        told = sentences(found)
        seconds = {one.words: seconds_in([each.run for each in one.reads]) for one in arms.reads.values()}
        return Outcome(found=found, sentences=told, seconds=seconds, page=page(found, told, seconds))

    return conduct_study(study, say, conduct, pace=minutes_of, run=run)
