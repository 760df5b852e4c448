"""A task of the user's own as it is registered: one experiment of a file, or of a value in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tinsmith.lab.experiment.experiment import Experiment, KindEntry, Plan
from tinsmith.lab.experiment.frame import RunFrame
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.user_task.kinds import TASK_KINDS
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from tinsmith.lab.experiment.materials import Matter
    from tinsmith.lab.page.compared import Comparison
    from tinsmith.lab.progress import Told
    from tinsmith.lab.runs.records import Run
    from tinsmith.pages.document import Document


@dataclass(frozen=True, slots=True)
class UserTaskEntry:
    """See SubjectEntry; its methods are described there. Its experiment is made where its file is read."""

    kinds: Mapping[Kind, KindEntry]
    alone: str | None = "runs on tasks of one's own are not compared with others"
    found_by: str = "task_file"

    @property
    def experiments(self) -> Sequence[Experiment]:
        """See SubjectEntry; none is there before its file."""
        return ()

    def check(self, plan: Plan) -> None:
        """See SubjectEntry; the file is checked where it is read."""
        del plan

    def named(self, frame: RunFrame) -> Mapping[str, object]:
        """See SubjectEntry; its code is part of the run's identity."""
        del frame
        return {}

    def matter(self, plan: Plan, told: Told) -> Matter:
        """See SubjectEntry.

        Raises:
            ConfigError: always; only the file, or the value in Python, knows its items.
        """
        del told
        raise ConfigError(
            "a task of one's own is run from its file",
            field="experiment",
            value=plan.experiment.name,
            fix="tinsmith run FILE.py",
        )

    def forecast(self, plan: Plan) -> Sequence[str]:
        """See SubjectEntry; what is said of its items is said where the file is read."""
        return [f"{plan.settings.steps} steps"]

    def page(self, run: Run) -> Document:
        """See SubjectEntry."""
        from tinsmith.lab.user_task.page import task_document

        return task_document(run)

    def compare(self, folders: Sequence[Path], task: str | None) -> Comparison:
        """See SubjectEntry.

        Raises:
            ConfigError: always; there is no such comparison.
        """
        del task
        raise ConfigError(
            "runs on tasks of one's own are not compared yet",
            field="DIR",
            value=[str(folder) for folder in folders],
            allowed="one folder",
        )


USER_TASK: Final = UserTaskEntry(TASK_KINDS)
"""Whatever a user's file says."""
