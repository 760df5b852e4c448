"""Reader of run folders, including unfinished ones and truncated lines.

A line that cannot be read is left out and counted; a file that is absent is named. Only a folder without a readable
`config.json` is refused: without it nothing says what was run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from tinsmith.data.baselines.answers import read_answers
from tinsmith.data.baselines.report import Baseline, TargetReport, read_report
from tinsmith.lab.judge.records import CriteriaRecord, LedgerRecord, summed
from tinsmith.lab.runs import files, records
from tinsmith.pages.tables import shown
from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE

T = TypeVar("T")


def read_run(folder: Path) -> records.Run:
    """Read a run without its rollouts."""
    notes: list[str] = []
    config = _config(folder)
    baselines, answers = (None, {})
    if config.kind in (files.Kind.RL, files.Kind.SFT):  # baselines answer every paper, each with one label
        baselines, answers = read_baselines(folder, config, notes)
    return records.Run(
        folder=folder,
        config=config,
        manifest=read_whole(folder / files.MANIFEST, records.Manifest, notes),
        metrics=_metrics(folder, notes),
        timings=tuple(map(_numbers, json_lines(folder / files.TIMINGS, dict[str, object], notes))),
        checkpoints=tuple(json_lines(folder / files.CHECKPOINTS, records.CheckpointRecord, notes)),
        baselines=baselines,
        baseline_answers=answers,
        notes=tuple(notes),
    )


def read_rollouts(folder: Path, notes: list[str], subject: str | None = None) -> Iterator[records.RolloutRecord]:
    """Yield the rollouts of a run in order; notes on unreadable lines are appended to `notes` at the end.

    With a `subject` they are about several labels, and what is said of this one is told.
    """
    if subject is None:
        yield from json_lines(folder / files.ROLLOUTS, records.RolloutRecord, notes)
    else:
        for rollout in json_lines(folder / files.ROLLOUTS, records.JointRollout, notes):
            yield rollout.alone(subject)


def _config(folder: Path) -> records.Config:
    file = folder / files.CONFIG
    if not file.is_file():
        allowed = f"a folder with a {files.CONFIG}, as `tinsmith run` leaves it"
        raise DataError(f"{folder} holds no run", field="DIR", value=str(folder), allowed=allowed)
    try:
        config = msgspec.json.decode(file.read_bytes(), type=records.Config)
    except UNREADABLE as error:
        raise DataError(f"{file} is damaged: {error}") from None
    if config.kind is files.Kind.MEASUREMENT:
        what = f"{folder} holds a measurement, which has its page already"
        raise DataError(what, field="DIR", value=str(folder), fix=f"open {folder / files.REPORT}")
    return config


def read_whole(file: Path, kind: type[T], notes: list[str]) -> T | None:
    """Read a file with one JSON object; None, with a note, if it is unreadable."""
    if not file.is_file():
        notes.append(f"{file.name} is missing.")
        return None
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except UNREADABLE as error:
        notes.append(f"{file.name} cannot be read: {error}.")
        return None


def json_lines(file: Path, kind: type[T], notes: list[str]) -> Iterator[T]:
    """Yield the JSON objects of a file's lines; notes on skipped lines are appended to `notes` at the end."""
    if not file.is_file():
        notes.append(f"{file.name} is missing.")
        return
    decoder = msgspec.json.Decoder(kind)
    bad = 0
    cut = False
    with file.open("rb") as stream:
        for line in stream:
            # A line without its end was being written when the run stopped, even where it can be read.
            cut = not line.endswith(b"\n")
            if cut or not line.strip():
                continue
            try:
                yield decoder.decode(line)
            except UNREADABLE:
                bad += 1
    if cut:
        notes.append(f"{file.name} stops in the middle of a line; that line is left out.")
    if bad:
        notes.append(f"{file.name}: {bad:,} unreadable line{'s' if bad > 1 else ''} left out.")


def _metrics(folder: Path, notes: list[str]) -> dict[int, records.Row]:
    """Read the metrics by step; the last line of a repeated step counts."""
    steps: dict[int, records.Row] = {}
    nameless = 0
    for line in json_lines(folder / files.METRICS, dict[str, object], notes):
        step = line.pop("step", None)
        if isinstance(step, int):
            steps[step] = _numbers(line)
        else:
            nameless += 1
    if nameless:
        notes.append(f"{files.METRICS}: {nameless:,} line{'s' if nameless > 1 else ''} without a step left out.")
    return dict(sorted(steps.items()))


_FLOAT_BITS: Final = 1024  # A whole number of as many bits may be above any float, and is left out.


def _numbers(line: Mapping[str, object]) -> records.Row:
    return {
        key: None if value is None else float(value)
        for key, value in line.items()
        if value is None or isinstance(value, float) or (isinstance(value, int) and value.bit_length() < _FLOAT_BITS)
    }


_Answers = Mapping[Baseline, Mapping[str, str]]


def read_baselines(folder: Path, config: records.Config, notes: list[str]) -> tuple[TargetReport | None, _Answers]:
    """Read the baselines of the run's task, with their answers if these were saved."""
    try:
        report = read_report(folder)
    except DataError as error:
        notes.append(f"{error.what}.")
        return None, {}
    if report is None:
        notes.append(f"{files.BASELINES} is missing: the slice's baselines were not computed.")
        return None, {}
    for target in report.targets:
        if set(target.classes) == set(config.task.labels):
            try:
                return target, read_answers(folder, report, target.target)
            except DataError as error:
                notes.append(f"{error.what}.")
                return target, {}
    notes.append(f"{files.BASELINES} has nothing on the task {json.dumps(config.task.name)}.")
    return None, {}


Places = dict[tuple[str, int], list[bool]]  # Verdicts by item and place of its criterion.


class ItemRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An item that is examined."""

    id: str
    prompt: str = ""
    unit: str = ""  # The unit that it belongs to; items of one unit are no independent evidence.
    answer: str = ""  # A right one; empty: the task names none.


class BaselineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The reward of an answer without a model, by item; or the reason why that is not known."""

    name: str
    by_item: dict[str, float] = {}
    metrics: dict[str, dict[str, float]] = {}  # Its metrics by item, each under its name.
    failure: str = ""

    def exact(self, name: str = "total") -> dict[str, Fraction]:
        """Return the reward, or `metric/NAME`, as fractions: equal decimals are ties."""
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
    tested: tuple[ItemRecord, ...] = ()  # Evaluated once, at the end.
    baselines: tuple[BaselineRecord, ...] = ()
    tested_baselines: tuple[BaselineRecord, ...] = ()  # On the items of the test, where these are others.
    examples: tuple[records.ExampleRecord, ...] = ()
    """Demonstrations of the items that a filter chose from; none where the task has no filter."""
    figures: dict[str, str] = {}
    """Metrics of a run's last line that pages and comparisons show: keys in `metrics.jsonl`, by label."""


@dataclass(slots=True)
class Examination:
    """Results of one evaluation: at one step, sampled or greedy."""

    step: int
    rewards: dict[str, dict[str, list[Fraction]]] = field(default_factory=dict[str, dict[str, list[Fraction]]])
    """By name of the value and item: of every answer."""
    first_answers: dict[str, records.TaskRollout] = field(
        default_factory=dict[str, records.TaskRollout]
    )  # The first answer to each item.
    failed: dict[str, records.FailureRecord] = field(default_factory=dict[str, records.FailureRecord])
    """First failure of each item that has one."""
    texts: Counter[str] = field(default_factory=Counter[str])

    places: Places = field(default_factory=Places)

    def take(self, rollout: records.TaskRollout) -> None:
        """Count one answer."""
        for name, value in rollout.values.items():
            self.rewards.setdefault(name, {}).setdefault(rollout.prompt_id, []).append(value)
        self.first_answers.setdefault(rollout.prompt_id, rollout)
        self.texts[rollout.text] += 1

    def by_item(self, name: str = "total") -> dict[str, Fraction]:
        """Return the mean of a term over each item's answers."""
        return {
            item: sum(values, Fraction()) / len(values) for item, values in sorted(self.rewards.get(name, {}).items())
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """A judge's work in a run."""

    judge: str
    ledger: LedgerRecord  # The sum of every asking. `dollars` is None where one has no known price.
    criteria: dict[tuple[str, int], str]  # Text of each criterion that is known.
    trained: Places = field(default_factory=Places)  # Verdicts on training answers.
    texts: Counter[str] = field(default_factory=Counter[str])  # Number of times that each text was written.

    def take(self, rollout: records.TaskRollout, places: Places) -> None:
        """Count the verdicts on an answer."""
        self.texts[rollout.text] += 1
        for number, verdict in enumerate(rollout.verdicts):
            at = (rollout.prompt_id, number)
            places.setdefault(at, []).append(verdict.passed)
            if at not in self.criteria and (rule := rule_in(verdict.rationale)):
                self.criteria[at] = rule

    def criterion(self, place: tuple[str, int]) -> str:
        """Return the text of a criterion."""
        return self.criteria.get(place) or f"criterion {place[1] + 1} of {place[0]}"

    def by_criterion(self, places: Places) -> dict[str, list[Fraction]]:
        """Return each criterion's share of fulfilling answers, one value per item that has it."""
        found: dict[str, list[Fraction]] = {}
        for place, held in sorted(places.items()):
            found.setdefault(self.criterion(place), []).append(Fraction(sum(held), len(held)))
        return found


def rule_in(rationale: str) -> str:
    """Return the rule in a rule-based verdict's rationale; empty for a model's rationale."""
    verdict, _, rule = rationale.partition(": ")
    return rule if verdict in ("holds", "fails") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunRecords:
    """A run and all that its page needs."""

    run: records.Run
    task: TaskRecord = field(default_factory=TaskRecord)
    sections: tuple[records.SectionRecord, ...] = ()
    sampled: tuple[Examination, ...] = ()  # By step.
    greedy: tuple[Examination, ...] = ()
    tests: Mapping[str, Examination] = field(default_factory=dict[str, Examination])
    """Last evaluation of every other split, such as the test's."""
    failures: Mapping[records.Cause, int]
    rollouts: int  # Failed ones included.
    groups: Sequence[Sequence[float]] = ()
    """Rewards of the training answers that did not fail, by group."""
    judging: Judging | None = None
    notes: tuple[str, ...]  # What could not be read, in words.

    @property
    def score(self) -> str:
        """Name of `total` in an evaluation."""
        exams = (*self.sampled, *self.greedy, *self.tests.values())
        judged = "score" if any(records.PASS_RATE in one.rewards for one in exams) else records.PASS_RATE
        return judged if self.judging else "reward"

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of values beside the score, where there are several."""
        if self.judging:
            return (records.PASS_RATE, records.ALL_CRITERIA)[self.score == records.PASS_RATE :]
        return self.task.terms if len(self.task.terms) > 1 else ()

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of every item that shares one with other items."""
        return {one.id: one.unit for one in self.task.items if one.unit and one.unit != one.id}

    @property
    def held_out(self) -> bool:
        """True if the evaluated items are not trained on."""
        return self.run.config.data.test != 0

    @property
    def at_test(self) -> TaskRunRecords:
        """This run with its test as the only evaluation, if it has one."""
        if records.Split.TEST not in self.tests:
            return self
        greedy, task = self.tests.get(records.Split.TEST_GREEDY), self.task
        if task.tested:
            task = msgspec.structs.replace(task, items=task.tested, baselines=task.tested_baselines)
        return replace(
            self, task=task, sampled=(self.tests[records.Split.TEST],), greedy=() if greedy is None else (greedy,)
        )


def read_task_run(run: records.Run) -> TaskRunRecords:
    """Read a run on a task with all its records."""
    notes = list(run.notes)
    task = read_whole(run.folder / files.TASK, TaskRecord, notes) or TaskRecord()
    # They are written at the end: that they are missing says nothing new.
    sections = read_whole(run.folder / files.SECTIONS, dict[str, tuple[records.SectionRecord, ...]], []) or {}
    judging, judge = None, str((run.config.reward or {}).get("judge", ""))
    if judge:
        tasks = list(json_lines(run.folder / files.TASKS, CriteriaRecord, notes))
        criteria = {(one.task_id, place): text for one in tasks for place, text in enumerate(one.criteria)}
        ledger = summed(list(json_lines(run.folder / files.LEDGER, LedgerRecord, notes)))
        judging = Judging(judge=judge, ledger=ledger, criteria=criteria)
    exams: dict[tuple[str, int], Examination] = {}
    failed: dict[tuple[str, int], dict[str, records.FailureRecord]] = {}
    failures: Counter[records.Cause] = Counter()
    groups: list[list[float]] = []
    trained: records.TaskRollout | None = None
    rollouts = 0
    for line in json_lines(run.folder / files.ROLLOUTS, records.TaskRollout, notes):
        rollouts += 1
        if line.split == records.Split.TRAIN:
            groups += [] if line.continues(trained) else [[]]
            trained = line
        if line.failure is not None or (line.total is None and not line.verdicts):
            cause = line.failure or records.FailureRecord(what="no reward")
            failures[records.Cause(line.split, cause.where, cause.what)] += 1
            failed.setdefault((line.split, line.step), {}).setdefault(line.prompt_id, cause)
            continue
        exam = None
        if trained is line:
            groups[-1].append(float(line.values["total"]) if line.total is None else line.total)
        else:
            exam = exams.setdefault((line.split, line.step), Examination(line.step))
            exam.take(line)
        if judging is not None:
            judging.take(line, judging.trained if exam is None else exam.places)
    for at, exam in exams.items():
        exam.failed = failed.get(at, {})
    ordered = [(split, exams[split, step]) for split, step in sorted(exams)]
    return TaskRunRecords(
        run=run,
        task=task,
        sections=sections.get("sections", ()),
        sampled=tuple(exam for split, exam in ordered if split == records.Split.EVAL),
        greedy=tuple(exam for split, exam in ordered if split == records.Split.EVAL_GREEDY),
        tests={split: exam for split, exam in ordered if split not in (records.Split.EVAL, records.Split.EVAL_GREEDY)},
        failures=dict(sorted(failures.items())),
        rollouts=rollouts,
        groups=groups,
        judging=judging,
        notes=tuple(notes),
    )


R = TypeVar("R", bound=TaskRunRecords)


def seedless(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings without the seed, in which runs of one arm differ."""
    return {key: value for key, value in settings.items() if key != "seed"}


def named_base(run: records.Run) -> dict[str, object]:
    """Return the fingerprint of the model that a run names; empty for one that it built, or where it is unknown.

    A folder's name says nothing, and a base that is built may differ by seed, as its items do.
    """
    if run.manifest is None or run.manifest.circumstances.get("model_name") is None:
        return {}
    fingerprint = run.manifest.model.get("fingerprint")
    return {} if fingerprint is None else {"base": str(fingerprint)[:16]}


def by_seed(
    reads: Iterable[R], identity: Callable[[R], object], rank: Callable[[R], tuple[int, ...]] = lambda _: ()
) -> tuple[tuple[R, ...], ...]:
    """Group runs of one `identity`, which differ by seed alone; seeds ascending.

    Groups stand in the order in which they first occur. A seed again says nothing new, and is left out: all runs with
    it but the first of the highest `rank`.
    """
    groups: dict[str, dict[int | str, R]] = {}
    for one in reads:
        group = groups.setdefault(json.dumps(identity(one), sort_keys=True), {})
        seed = str(one.run.folder) if one.run.config.seed is None else one.run.config.seed
        if seed not in group or rank(one) > rank(group[seed]):
            group[seed] = one
    every = (group.values() for group in groups.values())
    return tuple(tuple(sorted(some, key=lambda one: (one.run.config.seed or 0, str(one.run.folder)))) for some in every)


def left_out(reads: Sequence[R], groups: Iterable[Sequence[R]]) -> list[R]:
    """Return the runs that are in none of the groups, as their seed is there already."""
    taken = {one.run.folder for some in groups for one in some}
    return [one for one in reads if one.run.folder not in taken]


def distinct(names: Sequence[str], settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return for each name the settings that distinguish it from equal names; empty if none does.

    >>> distinct(["a", "a", "b"], [{"steps": 1, "limit": None}, {"steps": 1}, {"steps": 2}])
    ['limit=none', '', '']
    """
    labels: list[str] = []
    for name, own in zip(names, settings, strict=True):
        alike = [other for each, other in zip(names, settings, strict=True) if each == name]
        known = {key: shown(value) for key, value in own.items()}
        labels.append(
            ", ".join(
                f"{key}={value}"
                for key, value in known.items()
                if any(key not in other or shown(other[key]) != value for other in alike)
            )
        )
    return labels


def numbered(names: Sequence[str]) -> list[str]:
    """Return the names, with a number appended to equal ones.

    >>> numbered(["a", "b", "a"])
    ['a [1]', 'b', 'a [2]']
    """
    places = [names[: place + 1].count(name) for place, name in enumerate(names)]
    return [f"{name} [{place}]" if names.count(name) > 1 else name for name, place in zip(names, places, strict=True)]
