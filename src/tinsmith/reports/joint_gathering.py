"""Reads a run on two labels: the answers of every evaluation, and each task as if it were a run of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from tinsmith.analysis.evaluation import Answered, Evaluation
from tinsmith.analysis.evaluations import Evaluations
from tinsmith.data.baseline_answers import read_answers
from tinsmith.data.baseline_report import Baseline, TargetReport, read_report
from tinsmith.reports.arms import Arm, Member
from tinsmith.reports.gathering import Cause, Gathered, disagreements, parsed
from tinsmith.runs.files import ROLLOUTS
from tinsmith.runs.kinds import Kind
from tinsmith.runs.run_reader import json_lines
from tinsmith.runs.run_records import FailureRecord, Row, Run, Split
from tinsmith.tasks.subjects import Subject
from tinsmith.types.errors import DataError


class JointRollout(msgspec.Struct, frozen=True, kw_only=True):
    """One rollout; `failure` is set where it has no answer."""

    step: int
    split: str
    prompt_id: str
    text: str = ""
    outcome: str = ""
    gold: dict[str, str] = {}
    """By task."""
    predicted: dict[str, str] | None = None
    """By task; None where the answer has a fault."""
    confidence: str | None = None
    failure: FailureRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task of a joint run, as a run on that label alone would be read."""

    name: str
    arm: Arm
    """Of one member."""

    @property
    def run(self) -> Run:
        """The run, its metrics and alarms being this task's."""
        return self.arm.first

    @property
    def gathered(self) -> Gathered:
        """Its evaluations."""
        return self.arm.members[0].gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class JointRun:
    """A run on two labels, as far as it can be read."""

    run: Run
    evaluations: Mapping[tuple[str, int], Evaluations]
    """By split and step, those of training left out."""
    failures: Mapping[Cause, int]
    tasks: tuple[TaskView, ...]
    unread: tuple[str, ...]
    """What could not be read, in words."""
    notes: tuple[str, ...]
    """That, and which metrics the answers do not bear out."""

    def last(self, split: Split) -> Evaluations | None:
        """Return the last evaluation on a split."""
        steps = [step for name, step in self.evaluations if name == split]
        return self.evaluations[split, max(steps)] if steps else None


_Answers = Mapping[Baseline, Mapping[str, str]]
_Target = tuple[TargetReport | None, _Answers]


def read_joint_run(run: Run) -> JointRun:
    """Read the rollouts and baselines of a run on two labels."""
    notes = list(run.notes)
    answers: dict[tuple[str, int], dict[str, JointRollout]] = {}
    failures: Counter[Cause] = Counter()
    count = 0
    for rollout in json_lines(run.folder / ROLLOUTS, JointRollout, notes):
        count += 1
        if rollout.failure is not None:
            failures[Cause(rollout.split, rollout.failure.where, rollout.failure.what)] += 1
        elif rollout.split != Split.TRAIN:
            answers.setdefault((rollout.split, rollout.step), {})[rollout.prompt_id] = rollout
    evaluations: dict[tuple[str, int], Evaluations] = {}
    for (split, step), kept in sorted(answers.items()):
        try:
            # By paper, so that two files with the same answers give the same intervals.
            evaluations[split, step] = _evaluation([kept[paper] for paper in sorted(kept)])
        except (DataError, KeyError) as error:
            notes.append(f"The rollouts of {split} at step {step} cannot be scored: {error}.")
    targets = _targets(run, notes)
    found = JointRun(
        run=run,
        evaluations=evaluations,
        failures=dict(sorted(failures.items())),
        tasks=tuple(
            _alone(run, subject, evaluations, targets.get(subject.value, (None, {})), count)
            for subject in Subject
        ),
        unread=tuple(notes),
        notes=(),
    )
    for view in found.tasks:
        notes += [f"{view.name}: {said}" for said in disagreements(view.run, view.gathered)]
    return replace(found, notes=tuple(notes))


def _evaluation(rollouts: list[JointRollout]) -> Evaluations:
    return Evaluations(
        {
            subject.value: Evaluation(
                subject.labels, tuple(_answered(one, subject.value) for one in rollouts)
            )
            for subject in Subject
        }
    )


def _answered(rollout: JointRollout, task: str) -> Answered:
    return Answered(
        item=rollout.prompt_id,
        gold=rollout.gold[task],
        predicted=None if rollout.predicted is None else rollout.predicted[task],
        outcome=rollout.outcome,
        parse_ok=parsed(rollout.outcome, rollout.text),
        confidence=rollout.confidence,
    )


def _targets(run: Run, notes: list[str]) -> Mapping[str, _Target]:
    """Read the baselines by task, with their answers where these were kept."""
    try:
        report = read_report(run.folder)
        if report is None:
            notes.append("baselines.json is missing: the slice's baselines were not computed.")
            return {}
        return {
            target.target: (target, read_answers(run.folder, report, target.target))
            for target in report.targets
        }
    except DataError as error:
        notes.append(f"{error.what}.")
        return {}


def _alone(
    run: Run,
    subject: Subject,
    evaluations: Mapping[tuple[str, int], Evaluations],
    target: _Target,
    rollouts: int,
) -> TaskView:
    """Return one task as a run of its own: what is told of it stands under the names of a run on one label."""
    name = subject.value
    task = msgspec.structs.replace(run.config.task, name=name, labels=subject.labels)
    config = msgspec.structs.replace(run.config, kind=Kind.RL, task=task)
    alarms = tuple(alarm for alarm in run.alarms if alarm.task == name)
    view = replace(
        run,
        config=config,
        manifest=run.manifest and msgspec.structs.replace(run.manifest, alarms=alarms),
        metrics={step: _row(row, name) for step, row in run.metrics.items()},
        baselines=target[0],
        baseline_answers=target[1],
        notes=(),
    )
    gathered = Gathered(
        evaluations={place: one.tasks[name] for place, one in evaluations.items()},
        failures={},
        rollouts=rollouts,
        shown=(),
        notes=(),
    )
    arm = Arm(name=f"{run.config.title}, {name}", members=(Member(run=view, gathered=gathered),))
    return TaskView(name=name, arm=arm)


def _row(row: Row, task: str) -> Row:
    """Return a step's metrics as they would be of one task: `eval/TASK/name` as `eval/name`, others' left out."""
    others = {subject.value for subject in Subject}
    kept: dict[str, float | None] = {}
    for key, value in row.items():
        group, _, rest = key.partition("/")
        named, _, inner = rest.partition("/")
        if (
            group == "alarm"
        ):  # alarms of a task are those of the manifest, or of the whole run's metrics
            kind, _, label = rest.partition("/")
            of, _, label = label.partition("/")
            if of == task:
                kept["/".join(part for part in (group, kind, label) if part)] = value
        elif named == task:
            kept[f"{group}/{inner}"] = value
        elif named not in others and f"{group}/{task}/{rest}" not in row:
            kept[key] = value
    return kept
