"""A task of the user's own as it is registered: what its source says, carried by the one experiment made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.experiment import Experiment, KindEntry, Plan
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.experiment.own_rates import require_own_rates
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.user_task.kinds import JUDGED_KINDS, TASK_KINDS, Asking
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.live.progress import Say
    from tinsmith.lab.page.compared import Comparison
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
    """What its experiment is called."""
    own_keys: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class UserTaskEntry:
    """See SubjectEntry; its methods are described there."""

    kinds: Mapping[Kind, KindEntry]
    opened: OpenedTask | None = None
    """None: as it is registered, before any source was opened."""
    alone: str | None = "a task of one's own is compared with itself: its other keys and seeds"
    found_by: str = "task"

    @property
    def experiments(self) -> Sequence[Experiment]:
        """See SubjectEntry; none is there before its source."""
        return ()

    def check(self, plan: Plan) -> None:
        """See SubjectEntry; a task is checked where it is made."""
        require_own_rates(plan)

    def named(self, frame: RunFrame) -> Mapping[str, object]:
        """See SubjectEntry; its code is part of the run's identity."""
        del frame
        return {}

    def run_data(self, plan: Plan, say: Say) -> TaskData:
        """See SubjectEntry.

        Raises:
            ConfigError: there is no task: only its source knows it.
        """
        from tinsmith.lab.user_task.run_data import task_data

        del say
        if self.opened is None:
            raise ConfigError(
                "a task of one's own is run from its file",
                field="experiment",
                value=plan.experiment.name,
                fix="tinsmith run FILE.py",
            )
        return task_data(plan, self.opened)

    def forecast(self, plan: Plan) -> Sequence[str]:
        """See SubjectEntry."""
        return self.run_data(plan, print).forecast()

    def page(self, run: Run) -> Document:
        """See SubjectEntry."""
        from tinsmith.lab.page.run_page import page_of_run

        return page_of_run(run)

    def compare(self, folders: Sequence[Path], task: str | None) -> Comparison:
        """See SubjectEntry."""
        from tinsmith.lab.page.study_of_runs import compared_tasks

        del task
        return compared_tasks(folders)


USER_TASK: Final = UserTaskEntry(TASK_KINDS)
"""Whatever a source says."""


@dataclass(frozen=True, slots=True)
class JudgedTaskEntry(UserTaskEntry):
    """A task whose reward is a judge: see SubjectEntry."""

    alone: str | None = "judged runs and others have no score in common"

    def check(self, plan: Plan) -> None:
        """Check that the rates of the run are its own."""
        require_own_rates(plan)
        assert isinstance(plan.asking, Asking)
        if plan.asking.prices is not None and not plan.asking.prices.is_file():
            raise ConfigError("no such file", field="prices", value=str(plan.asking.prices))


JUDGED_TASK: Final = JudgedTaskEntry(JUDGED_KINDS)
"""The same for a task whose reward is a judge."""
