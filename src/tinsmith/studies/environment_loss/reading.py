"""Reads the runs of an arm step by step: how soon they succeed, what they foresee, and what they still ask."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines
from tinsmith.lab.study.task_arms import ArmRead
from tinsmith.lab.user_task.records import TaskRollout, TaskRunRecords
from tinsmith.stats.diagnostics.boredom import WINDOW, Boredom, Heard, boredom
from tinsmith.types.errors import DataError

HALF: Final = 0.5
_TRAIN: Final = "train"
_NLL: Final = "watch/env_nll"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One run."""

    seed: int
    success: tuple[float, ...]
    """Share of the conversations of each step that were paid."""
    nll_first: float
    nll_last: float
    """Of what the environment answered, in nats a token, before training and after it."""
    bored: Boredom | None
    """None: it has too few steps."""

    @property
    def to_half(self) -> int | None:
        """The step after which half of the last conversations succeeded; None: it never came to that.

        The last ones: those of as many steps as an alarm looks at together.
        """
        ends = range(WINDOW, len(self.success) + 1)
        means = ((end, sum(self.success[end - WINDOW : end]) / WINDOW) for end in ends)
        return next((end for end, mean in means if mean >= HALF), None)


def courses(read: ArmRead) -> tuple[Course, ...]:
    """Read every run of an arm.

    Raises:
        DataError: a run has no evaluation of what it foresees.
    """
    return tuple(_course(one) for one in read.reads)


def _course(one: TaskRunRecords) -> Course:
    rows = one.run.metrics
    told = [value for step in sorted(rows) if (value := rows[step].get(_NLL)) is not None]
    if not told:
        raise DataError(
            "a run did not watch what it foresees", field="watch", value=str(one.run.folder), allowed="environment"
        )
    steps = _heard(one)
    return Course(
        seed=one.run.config.seed or 0,
        success=tuple(step.solved for step in steps),
        nll_first=told[0],
        nll_last=told[-1],
        bored=boredom(steps),
    )


def _heard(one: TaskRunRecords) -> list[Heard]:
    """Return what was said and answered in each step of training; failed conversations are left out."""
    found: defaultdict[int, list[TaskRollout]] = defaultdict(list)
    for line in json_lines(one.run.folder / ROLLOUTS, TaskRollout, []):
        if line.split == _TRAIN and line.failure is None:
            found[line.step].append(line)
    return [_step(found[step]) for step in sorted(found)]


def _step(lines: list[TaskRollout]) -> Heard:
    said = [turn for line in lines for turn in line.turns]
    return Heard(
        commands=tuple(turn.text for turn in said if turn.role == "assistant"),
        answers=tuple(turn.text for turn in said if turn.role == "user"),
        solved=sum(line.metrics["right"] for line in lines) / len(lines),
    )
