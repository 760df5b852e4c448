"""What the folder of a run on rubrics says beside what every run's does: its tasks, verdicts, and the judge's ledger.

Every field has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.reports.run_reader import ROLLOUTS, json_lines
from tinsmith.reports.run_records import FailureRecord

TASKS: Final = "tasks.jsonl"
"""A line a task, training and held-out ones."""
LEDGER: Final = "judge.jsonl"
"""A line for every time that the judge was asked, sittings that were killed and what they did over included."""
JUDGE: Final = "judge"
"""Where a rollout failed that has no verdicts."""


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `tasks.jsonl`."""

    task_id: str
    split: str = ""
    prompt: str = ""
    criteria: tuple[str, ...] = ()


class VerdictRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge said of one rubric."""

    passed: bool
    rationale: str = ""


class RubricRollout(msgspec.Struct, frozen=True, kw_only=True):
    """One response; `failure` is set where it has no verdicts."""

    step: int
    split: str
    prompt_id: str
    sample: int = 0
    text: str = ""
    verdicts: tuple[VerdictRecord, ...] = ()
    total: float | None = None
    failure: FailureRecord | None = None


class LedgerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One asking of the judge: responses judged, and what that took."""

    judged: int = 0
    failed: int = 0
    from_cache: int = 0
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    dollars: float | None = None


def read_tasks(folder: Path, notes: list[str]) -> tuple[TaskRecord, ...]:
    """Return the tasks of a run; none where they were not written down."""
    return tuple(json_lines(folder / TASKS, TaskRecord, notes))


def read_ledger(folder: Path, notes: list[str]) -> tuple[LedgerRecord, ...]:
    """Return every asking of the judge."""
    return tuple(json_lines(folder / LEDGER, LedgerRecord, notes))


def read_responses(folder: Path, notes: list[str]) -> Iterator[RubricRollout]:
    """Yield the responses of a run in the order they were written; what is unreadable goes to `notes` at the end."""
    yield from json_lines(folder / ROLLOUTS, RubricRollout, notes)
