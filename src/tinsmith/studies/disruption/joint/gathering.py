"""Reads a run on two labels: each label as a run on it alone would be read, and the answers to both together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.results.arms import Member
from tinsmith.lab.results.gathering import Cause, disagreements, gather
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.reader import read_baselines
from tinsmith.lab.runs.records import Row, Run, Split
from tinsmith.stats.evaluation import Evaluations


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRun:
    """A run on two labels, as far as it can be read."""

    run: Run
    tasks: Mapping[str, Member]
    """What it says of each label, by the subject's name."""

    @property
    def failures(self) -> Mapping[Cause, int]:
        """The rollouts that came to nothing: one has both answers or none."""
        return next(iter(self.tasks.values())).gathered.failures

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be read, in words, and which metrics the answers do not bear out."""
        members = self.tasks.items()
        unread = [note for _, one in members for note in (*one.run.notes, *one.gathered.notes)]
        false = [f"{name}: {said}" for name, one in members for said in disagreements(one.run, one.gathered)]
        return tuple(dict.fromkeys([*unread, *false]))

    def last(self, split: Split) -> Evaluations | None:
        """Return the last evaluation on a split."""
        found = {name: one.gathered.evaluations for name, one in self.tasks.items()}
        scored = set[tuple[str, int]].intersection(*(set(each) for each in found.values()))
        steps = [step for name, step in scored if name == split]
        if not steps:
            return None
        return Evaluations({name: each[split, max(steps)] for name, each in found.items()})


def read_joint_run(run: Run) -> JointRun:
    """Read the rollouts and baselines of a run on two labels."""
    return JointRun(run=run, tasks={subject.value: label_alone(run, subject) for subject in Subject})


def label_alone(run: Run, subject: Subject) -> Member:
    """Return one label of a run on two: what is told of it stands under the names of a run on it alone."""
    name, notes = subject.value, list(run.notes)
    task = msgspec.structs.replace(run.config.task, name=name, labels=subject.labels)
    config = msgspec.structs.replace(run.config, kind=Kind.RL, task=task)
    baselines, answers = read_baselines(run.folder, config, notes)
    alarms = tuple(alarm for alarm in run.alarms if alarm.task == name)
    view = replace(
        run,
        config=config,
        manifest=run.manifest and msgspec.structs.replace(run.manifest, alarms=alarms),
        metrics={step: _row(row, name) for step, row in run.metrics.items()},
        baselines=baselines,
        baseline_answers=answers,
        notes=tuple(notes),
    )
    return Member(run=view, gathered=gather(view, name), two_labels=True)


def _row(row: Row, task: str) -> Row:
    """Return a step's metrics as they would be of one task: `eval/TASK/name` as `eval/name`, others' left out."""
    others = {subject.value for subject in Subject}
    kept: dict[str, float | None] = {}
    for key, value in row.items():
        group, _, rest = key.partition("/")
        named, _, inner = rest.partition("/")
        if group == "alarm":  # `alarm/KIND/TASK/label`
            of, _, label = inner.partition("/")
            if of == task:
                kept["/".join(part for part in (group, named, label) if part)] = value
        elif named == task:
            kept[f"{group}/{inner}"] = value
        elif named not in others and f"{group}/{task}/{rest}" not in row:
            kept[key] = value
    return kept
