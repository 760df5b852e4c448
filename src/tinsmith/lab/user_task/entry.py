"""Every task as experiments have it: its ways to train, its page, and the task itself once it was opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from tinsmith.lab.experiment.experiment import REWARD_PREFIX, Experiment, KindEntry, Plan
from tinsmith.lab.experiment.named_model import require_own_rates
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.user_task.kinds import JUDGED_KINDS, TASK_KINDS, Asking
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.live.progress import Say
    from tinsmith.lab.page.compared import Comparison
    from tinsmith.lab.papers.run_data import PaperData
    from tinsmith.lab.runs.records import Run
    from tinsmith.lab.user_task.run_data import TaskData
    from tinsmith.lab.user_task.source import TaskSource
    from tinsmith.lab.user_task.task import Task, Value
    from tinsmith.pages.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTask:
    """A task with the source that it was made by, and the values of the source's own keys."""

    source: TaskSource
    task: Task
    name: str
    """Name of its experiment."""
    own_keys: Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTaskEntry:
    """A way to be run: one for labels, for both of them, for every task, and for those that a judge scores."""

    kinds: Mapping[Kind, KindEntry]
    """Ways to train; they differ in their loop and not in their frame."""
    page_at: str = "lab.page.run_page:page_of_run"
    """MODULE:FUNCTION that returns the page of a run; imported where it is needed."""
    compare_at: str = "lab.page.study_of_runs:compared_tasks"
    """Likewise, of several runs; it takes a label too where there is a choice of one."""
    alone: str | None = None
    """Why its runs are compared with their like alone; None: they are compared with others on papers."""
    function: Callable[..., Task] | None = None
    """Returns the task of an experiment with a name; its arguments are keys."""
    experiments_at: str = ""
    """MODULE:NAME of these experiments."""
    task: Task | None = None
    """That of an experiment with a name, once its keys are known."""
    opened: OpenedTask | None = None
    """None: as it is registered, before any source was opened."""

    @property
    def experiments(self) -> Sequence[Experiment]:
        """The experiments on it; of a task without names none."""
        return cast("Sequence[Experiment]", _found(self.experiments_at)) if self.experiments_at else ()

    def check(self, plan: Plan) -> Plan:
        """Open the task of an experiment; one without a name was made by its source."""
        if isinstance(plan.asking, Asking) and plan.asking.prices is not None and not plan.asking.prices.is_file():
            raise ConfigError("no such file", field="prices", value=str(plan.asking.prices))
        if self.function is None:
            require_own_rates(plan)
            return plan
        settings = {f"{REWARD_PREFIX}{key}": value for key, value in plan.reward_settings.items()}
        task = self.function(**plan.own, **settings)
        if task.run is not None:
            task.run.check(plan)
        return replace(plan, experiment=replace(plan.experiment, subject=replace(self, task=task)))

    def named(self, plan: Plan) -> Mapping[str, object]:
        """Return what a plan's keys stand for; the code of a task without a name is part of its runs' identity."""
        return {} if self.function is None else self.task_of(plan).identity

    def task_of(self, plan: Plan) -> Task:
        """Return the task that was opened."""
        if self.task is not None:
            return self.task
        if self.opened is None:
            raise ConfigError(
                "a task of one's own is run from its file",
                field="experiment",
                value=plan.experiment.name,
                fix="tinsmith run FILE.py",
            )
        return self.opened.task

    def run_data(self, plan: Plan, say: Say) -> TaskData | PaperData:
        """Find or build what a plan is about."""
        run = self.task_of(plan).run
        return self._task_data(plan) if run is None else run.run_data(plan, say)

    def _task_data(self, plan: Plan) -> TaskData:
        from tinsmith.lab.user_task.run_data import task_data

        assert self.opened is not None
        return task_data(plan, self.opened)

    def forecast(self, plan: Plan) -> Sequence[str]:
        """Return what a run would take: lines for a person; nothing is built."""
        run = self.task_of(plan).run
        return self._task_data(plan).forecast() if run is None else run.forecast(plan)

    def page(self, run: Run) -> Document:
        """Return the page of a run."""
        return cast("Callable[[Run], Document]", _found(self.page_at))(run)

    def compare(self, folders: Sequence[Path], task: str | None) -> Comparison:
        """Compare runs on it, for one of their labels where they have several."""
        compared = cast("Callable[..., Comparison]", _found(self.compare_at))
        return compared(folders, task) if self.alone is None else compared(folders)


def _found(where: str) -> object:
    module, _, name = where.partition(":")
    return getattr(import_module(f"tinsmith.{module}"), name)


USER_TASK: Final = UserTaskEntry(
    kinds=TASK_KINDS, alone="a task of one's own is compared with itself: its other keys and seeds"
)
"""Whatever a source says."""
JUDGED_TASK: Final = UserTaskEntry(kinds=JUDGED_KINDS, alone="judged runs and others have no score in common")
"""The same for a task whose reward is a judge."""
