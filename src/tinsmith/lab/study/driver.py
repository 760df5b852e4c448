"""How all runs of a study come about: arms x learning rates x seeds.

Rates are tried on one seed and chosen by validation alone; then every arm is trained at its own rate with every seed,
none of which chose it, and tested. Each run is a `tinsmith run`; those that came to their end stay as they are, so that
the same call goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.plan import make_plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.results.arms import Arm, gather
from tinsmith.lab.runs.reader import read_run
from tinsmith.lab.study.arms import CELLS, Cell, Study, StudyArm
from tinsmith.lab.study.cells import RunCells, run_cells, sole_process
from tinsmith.lab.study.files import PAGE, SECONDS_JSON, STUDY_JSON, TABLES, write_json, write_text
from tinsmith.lab.study.on_ray import runner
from tinsmith.lab.study.record import Seconds, StudyRecord, Tried
from tinsmith.lab.study.tried_rates import chosen, tried_on_labels
from tinsmith.pages.document import Document
from tinsmith.pages.markdown import document_markdown
from tinsmith.pages.page import document_html

_MEGABYTES: Final = 8
"""Of one run, most of it rollouts and checkpoints."""
_START_MINUTES: Final = 0.15
"""Of one run, to start its server and load what it needs."""

ReadTried = Callable[[Mapping[float, Path]], tuple[Tried, ...]]
"""Reads what finished runs scored on validation, by rate."""
Pace = Callable[[Plan], float | None]
"""Says how many minutes a run takes; None: nothing is known of its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedArm:
    """An arm at the rate that was chosen for it."""

    arm: StudyArm
    rate: float | None
    tried: tuple[Tried, ...]
    cells: Sequence[Cell]
    """Those that are reported, one a seed."""

    def read(self) -> Arm:
        """Read the reported runs."""
        runs = [read_run(cell.folder) for cell in self.cells]
        return Arm(name=self.arm.words, members=tuple(map(gather, runs)))


Tuned = Mapping[str, TunedArm]
"""By the name of the arm, in the order of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that a study has to show."""

    found: StudyRecord
    sentences: tuple[str, ...]
    """What may be said, the first thing first."""
    seconds: Mapping[str, Seconds]
    """By the name of the arm."""
    page: Document


@dataclass(frozen=True, slots=True)
class Stages:
    """Runs a study stage by stage: what was chosen for some arms may decide how others are trained."""

    run: RunCells
    told: Say
    read_tried: ReadTried = tried_on_labels

    def tune(self, study: Study, arms: Sequence[StudyArm]) -> dict[str, TunedArm]:
        """Try the rates of arms, and choose."""
        cells = {arm.name: study.tuning(arm) for arm in arms}
        self.run([cell for some in cells.values() for cell in some.values()], self.told)
        return {arm.name: self._chosen(study, arm, cells[arm.name]) for arm in arms}

    def _chosen(self, study: Study, arm: StudyArm, cells: Mapping[float, Cell]) -> TunedArm:
        folders = {rate: cell.folder for rate, cell in cells.items()}
        tried = self.read_tried(folders) if folders else ()
        rate = chosen(tried).rate if tried else next(iter(arm.rates), None)
        if tried:
            self.told(f"{arm.words}: learning rate {rate:g}, by validation")
        return TunedArm(arm=arm, rate=rate, tried=tried, cells=study.reported(arm, rate))

    def report(self, tuned: Tuned) -> None:
        """Run every arm at its rate with every seed."""
        self.run([cell for one in tuned.values() for cell in one.cells], self.told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The tuned arms of a study, which decide on later ones."""

    cells: Study
    tuned: Tuned
    stages: Stages

    @property
    def say(self) -> Say:
        """Takes lines of progress."""
        return self.stages.told

    def rate(self, arm: str) -> float:
        """Return the learning rate that was chosen for an arm."""
        rate = self.tuned[arm].rate
        assert rate is not None, "it is trained"
        return rate

    def run(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Run cells that have not come to their end, and return them."""
        self.stages.run(cells, self.say)
        return cells


def conduct_study(
    study: Study,
    say: Say,
    conduct: Callable[[Stages], Outcome],
    *,
    later: Sequence[StudyArm] = (),
    pace: Pace,
    read_tried: ReadTried = tried_on_labels,
    run: RunCells = run_cells,
) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    `conduct` goes through the stages. For the forecast: `later` are arms that earlier ones decide on, as they are
    expected to be, and `pace` says how long a run takes. `run` runs cells where no cluster was asked for.
    """
    lines = forecast(study, later, pace)
    for line in lines if study.dry_run else lines[-1:]:
        say(line)
    if study.dry_run:
        return study.out
    with sole_process(study.out), runner(study.cluster, run) as run_there:
        outcome = conduct(Stages(run_there, say, read_tried))
        write_outcome(study.out, outcome)
    for sentence in outcome.sentences:
        say(sentence)
    return study.out


def forecast(study: Study, later: Sequence[StudyArm], pace: Pace) -> list[str]:
    """Return what a study would take, arm by arm; nothing is built."""
    from tinsmith.lab.experiment.estimate import time_and_disk  # loads what a run needs; a study's file need not

    arms = [*study.arms, *later]
    tuning = sum(len(study.tuning(arm)) for arm in arms)
    reported = len(arms) * len(study.seeds)
    taken: float | None = 0.0
    for arm in arms:
        cell, *others = study.reported(arm, next(iter(arm.rates), None))
        each = pace(make_plan(cell.experiment, cell.overrides))
        times = 1 + len(others) + len(study.tuning(arm))
        taken = None if each is None or taken is None else taken + times * (each + _START_MINUTES)
    runs = tuning + reported
    return [
        f"{study.name}: {study.question}",
        *(f"{arm.words}: {arm.experiment.name}{_rates(arm)}" for arm in arms),
        f"{tuning} runs to choose rates on seed {study.tuning_seed}, {reported} to report",
        f"{runs} runs in {study.out / CELLS}: {time_and_disk(taken, runs * _MEGABYTES)}",
    ]


def _rates(arm: StudyArm) -> str:
    tried = ", ".join(f"{rate:g}" for rate in arm.rates)
    return f", learning rates {tried}" if len(arm.rates) > 1 else ""


def write_outcome(out: Path, outcome: Outcome) -> None:
    """Write values, seconds, tables and page into the study's folder."""
    values = {**msgspec.to_builtins(outcome.found), "sentences": outcome.sentences}
    write_json(values, out / STUDY_JSON, sort_keys=True)
    write_json(msgspec.to_builtins(outcome.seconds), out / SECONDS_JSON, sort_keys=True)
    write_text(document_markdown(outcome.page), out / TABLES)
    write_text(document_html(outcome.page), out / PAGE)
