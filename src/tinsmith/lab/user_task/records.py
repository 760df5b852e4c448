"""Reads the folder of a run on a user's own task: its terms, items, baselines, sections, and rollouts by item.

Every field has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import msgspec

from tinsmith.lab.results.gathering import Cause
from tinsmith.lab.runs.files import ROLLOUTS
from tinsmith.lab.runs.reader import json_lines, read_whole
from tinsmith.lab.runs.records import FailureRecord, Run, Split

TASK: Final = "task.json"
SECTIONS: Final = "sections.json"


class ItemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An item that is examined."""

    id: str
    prompt: str = ""
    unit: str = ""
    """What it belongs to; items of one unit are no independent evidence."""


class BaselineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer without a model earns, by item; or why that is not known."""

    name: str
    by_item: dict[str, float] = {}
    metrics: dict[str, dict[str, float]] = {}
    """Its metrics by item, each under its name."""
    failure: str = ""

    def exact(self, name: str = "total") -> dict[str, Fraction]:
        """Return the reward, or `metric/NAME`, as fractions: what is equal in decimals is a tie."""
        named = {f"metric/{metric}": values for metric, values in self.metrics.items()}
        found = {"total": self.by_item, **named}.get(name, {})
        return {item: Fraction(repr(value)) for item, value in found.items()}


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """`task.json`."""

    terms: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    parsed: bool = False
    several_turns: bool = False
    items: tuple[ItemRecord, ...] = ()
    baselines: tuple[BaselineRecord, ...] = ()


class SectionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A section that the task adds to its page."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    failure: str = ""


class _Sections(msgspec.Struct, frozen=True, kw_only=True):
    sections: tuple[SectionRecord, ...] = ()


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was said in a conversation, after the prompt."""

    role: str
    text: str = ""


class TaskRollout(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout; `failure` is set where it has no reward."""

    step: int
    split: str
    prompt_id: str
    sample: int = 0
    text: str = ""
    terms: dict[str, float] = {}
    metrics: dict[str, float] = {}
    total: float | None = None
    turns: tuple[TurnRecord, ...] = ()
    failure: FailureRecord | None = None


@dataclass(slots=True)
class Examination:
    """What one evaluation found: at one step, sampled or greedy."""

    step: int
    rewards: dict[str, dict[str, list[Fraction]]] = field(default_factory=dict[str, dict[str, list[Fraction]]])
    """By name of the term (`total` is their sum; `metric/NAME` is not rewarded) and item: of every answer."""
    shown: dict[str, TaskRollout] = field(default_factory=dict[str, TaskRollout])
    """The first answer to each item."""
    texts: Counter[str] = field(default_factory=Counter[str])

    def take(self, one: TaskRollout, total: float) -> None:
        """Count one answer."""
        measured = {f"metric/{name}": value for name, value in one.metrics.items()}
        for name, value in {"total": total, **one.terms, **measured}.items():
            by_item = self.rewards.setdefault(name, {})
            # As it is written: what is equal in decimals is a tie.
            by_item.setdefault(one.prompt_id, []).append(Fraction(repr(value)))
        self.shown.setdefault(one.prompt_id, one)
        self.texts[one.text] += 1

    def by_item(self, name: str = "total") -> dict[str, Fraction]:
        """Return the mean of a term over each item's answers."""
        return {
            item: sum(values, Fraction()) / len(values) for item, values in sorted(self.rewards.get(name, {}).items())
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunRecords:
    """A run on a user's own task and all that its page needs."""

    run: Run
    task: TaskRecord
    sections: tuple[SectionRecord, ...]
    sampled: tuple[Examination, ...]
    """By step."""
    greedy: tuple[Examination, ...]
    failures: Mapping[Cause, int]
    rollouts: int
    """Failed ones included."""
    notes: tuple[str, ...]

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of every item that belongs to one of several items."""
        return {one.id: one.unit for one in self.task.items if one.unit and one.unit != one.id}

    @property
    def held_out(self) -> bool:
        """True if what is examined is not trained on."""
        return self.run.config.data.test != 0


def read_task_run(run: Run) -> TaskRunRecords:
    """Read everything of a run on a user's own task."""
    notes = list(run.notes)
    task = read_whole(run.folder / TASK, TaskRecord, notes) or TaskRecord()
    # They are written at the end: that they are missing says nothing new.
    sections = read_whole(run.folder / SECTIONS, _Sections, []) or _Sections()
    exams: dict[tuple[str, int], Examination] = {}
    failures: Counter[Cause] = Counter()
    rollouts = 0
    for one in json_lines(run.folder / ROLLOUTS, TaskRollout, notes):
        rollouts += 1
        if one.failure is not None or one.total is None:
            cause = one.failure or FailureRecord(what="no reward")
            failures[Cause(one.split, cause.where, cause.what)] += 1
        elif one.split != Split.TRAIN:
            exams.setdefault((one.split, one.step), Examination(one.step)).take(one, one.total)
    return TaskRunRecords(
        run=run,
        task=task,
        sections=sections.sections,
        sampled=_of_split(exams, Split.EVAL),
        greedy=_of_split(exams, Split.EVAL_GREEDY),
        failures=dict(sorted(failures.items())),
        rollouts=rollouts,
        notes=tuple(notes),
    )


def _of_split(exams: Mapping[tuple[str, int], Examination], split: str) -> tuple[Examination, ...]:
    return tuple(exam for (name, _), exam in sorted(exams.items()) if name == split)
