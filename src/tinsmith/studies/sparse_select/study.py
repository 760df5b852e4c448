"""`sparse_select`: offline contrastive training at uncertain tokens, beside GRPO, with as many rollouts and a tenth."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.live.progress import Say
from tinsmith.lab.study.cells import run_cells
from tinsmith.lab.study.driver import Outcome, RunCells, Stages, conduct_study
from tinsmith.lab.study.results import DRAWS, Draws
from tinsmith.lab.study.task_arms import read_runs, tried_on_tasks
from tinsmith.lab.study.task_study import OpenSource
from tinsmith.lab.user_task.entry import UserTaskEntry
from tinsmith.studies.sparse_select.outcome import SCORE, read_outcome
from tinsmith.studies.sparse_select.settings import ArmName, sparse_study


def run_sparse_select(
    overrides: Mapping[str, str], say: Say, *, open_source: OpenSource, run: RunCells = run_cells, draws: Draws = DRAWS
) -> Path:
    """Run what has not been run, and write values, tables and page; return the study's folder.

    Raises:
        ConfigError, DataError: a key is wrong, a run cannot begin, or another process runs this study.
        LostError: a server was lost; the same call goes on.
    """
    asked = sparse_study(overrides, open_source)

    def conduct(stages: Stages) -> Outcome:
        tuned = stages.tune(asked.study, asked.study.arms)
        stages.report(tuned)
        reads = {
            ArmName(name): read_runs(one.arm.words, [cell.folder for cell in one.cells]) for name, one in tuned.items()
        }
        return read_outcome(asked, tuned, reads, draws)

    return conduct_study(
        asked.study, say, conduct, pace=_minutes, read_tried=partial(tried_on_tasks, score=SCORE), run=run
    )


def _minutes(plan: Plan) -> float | None:
    entry = plan.experiment.subject
    assert isinstance(entry, UserTaskEntry)
    return entry.run_data(plan, print).minutes()
