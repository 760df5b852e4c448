"""Questions that a run asks of its papers."""

from __future__ import annotations

from dataclasses import dataclass

from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.labels.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOfPapers:
    """Question that a run puts about its papers, and the reward of answers."""

    asked: Task
    reward: str
    shuffle_labels: bool


def on_papers(plan: Plan) -> AskedOfPapers:
    """Return what a plan asks of its papers."""
    task = plan.experiment.subject.task
    assert task is not None
    assert task.run is not None, "this experiment is not on papers"
    return task.run


def task_asked(plan: Plan) -> Task:
    """Return what is asked of a plan's papers."""
    return on_papers(plan).asked
