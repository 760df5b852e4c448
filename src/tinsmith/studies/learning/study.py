"""`study/learning`: supervised training, RL, and one after the other, on any task, beside their controls, over seeds.

`study/taste`, `study/instructions` and `study/reasoning` are the same with their task named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.arms import StudyArm
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, Tuned, conduct_study
from tinsmith.lab.study.results import DRAWS, Draws
from tinsmith.lab.study.task_arms import tried_on_tasks
from tinsmith.lab.study.task_study import OpenSource
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.studies.learning.keys import ArmName
from tinsmith.studies.learning.outcome import read_outcome
from tinsmith.studies.learning.settings import LearningSettings, learning_settings


def run_learning(
    presets: Mapping[str, str],
    overrides: Mapping[str, str],
    say: Say,
    *,
    open_source: OpenSource,
    run: RunCells = run_cells,
    draws: Draws = DRAWS,
) -> Path:
    """See `learn`; return the study's folder."""
    return learn(presets, overrides, say, open_source=open_source, run=run, draws=draws).folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """A study that was run."""

    folder: Path
    outcome: Outcome | None
    """None: it was only forecast."""


def learn(
    presets: Mapping[str, str],
    overrides: Mapping[str, str],
    say: Say,
    *,
    open_source: OpenSource,
    run: RunCells = run_cells,
    draws: Draws = DRAWS,
) -> Learned:
    """Run what has not been run, and write values, tables and page.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    settings = learning_settings(presets, overrides, open_source)
    study, outcomes = settings.study, list[Outcome]()

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(study, study.arms)
        later = settings.later_arms(
            sft=_rate(tuned, ArmName.SFT, settings.sft_rates), rl=_rate(tuned, ArmName.RL, settings.rl_rates)
        )
        tuned |= stages.tune(study, later)
        stages.report(tuned)
        outcomes.append(read_outcome(settings, tuned, _sized(settings, tuned, stages), draws))
        return outcomes[-1]

    folder = conduct_study(
        study,
        say,
        conduct,
        later=_expected(settings),
        pace=_minutes,
        read_tried=partial(tried_on_tasks, score=settings.score),
        run=run,
    )
    return Learned(folder=folder, outcome=next(iter(outcomes), None))


def _rate(tuned: Tuned, name: ArmName, given: tuple[float, ...]) -> float:
    """Return the rate of a method: that of its arm, or the one that is given where it is no arm of its own."""
    found = tuned[name].rate if name in tuned else None
    return given[0] if found is None else found


def _sized(settings: LearningSettings, tuned: Tuned, stages: Stages) -> dict[int, Tuned]:
    """Run every arm on every number of items."""
    found: dict[int, Tuned] = {}
    for size in settings.sizes:
        arms = [settings.sized(one.arm, one.rate, size) for one in tuned.values() if one.rate is not None]
        found[size] = {name: one for name, one in zip(tuned, stages.tune(settings.study, arms).values(), strict=True)}
        stages.report(found[size])
    return found


def _expected(settings: LearningSettings) -> list[StudyArm]:
    """Return the arms that earlier ones decide on, at the first of their rates."""
    sft, rl = settings.sft_rates[0], settings.rl_rates[0]
    later = settings.later_arms(sft=sft, rl=rl)
    every = (*settings.first_arms(), *later)
    return [*later, *(settings.sized(arm, arm.rates[0], size) for size in settings.sizes for arm in every)]


def _minutes(plan: Plan) -> float | None:
    entry = plan.experiment.subject
    assert isinstance(entry, UserTaskEntry)
    return entry.run_data(plan, print).minutes()
