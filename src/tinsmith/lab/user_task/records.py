"""Reads the folder of a run on a task: terms, items, baselines, sections, a judge's verdicts, and rollouts by item.

Every field has a default: a run that was killed leaves files that stop anywhere, and its report still opens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from typing import Final

import msgspec

from tinsmith.lab.judge.records import CriteriaRecord, LedgerRecord, VerdictRecord, summed
from tinsmith.lab.results.arms import Cause
from tinsmith.lab.runs.files import LEDGER, ROLLOUTS, TASKS
from tinsmith.lab.runs.reader import json_lines, read_whole
from tinsmith.lab.runs.records import FailureRecord, Run, Split

TASK: Final = "task.json"
SECTIONS: Final = "sections.json"
ALL_CRITERIA: Final = "all criteria"
"""Of an answer that a judge saw: 1 where it fulfils all of them, else 0."""
Place = tuple[str, int]
"""An item, and the place of one of its criteria."""
Places = dict[Place, list[bool]]
"""Verdicts on each."""


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
    tested: tuple[ItemRecord, ...] = ()
    """Evaluated once, at the end."""
    baselines: tuple[BaselineRecord, ...] = ()
    figures: dict[str, str] = {}
    """Metrics of a run's last line that pages and comparisons show: keys in `metrics.jsonl`, by label."""


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
    verdicts: tuple[VerdictRecord, ...] = ()
    """Of a judge, in the order of the item's criteria."""
    failure: FailureRecord | None = None

    @property
    def values(self) -> dict[str, Fraction]:
        """Values by name of the term: `total` is their sum, or the share of criteria that a judge finds fulfilled.

        `metric/NAME` is not rewarded. As it is written: what is equal in decimals is a tie.
        """
        found = {"total": self.total, **self.terms} if self.total is not None else {}
        found |= {f"metric/{name}": value for name, value in self.metrics.items()}
        exact = {name: Fraction(repr(value)) for name, value in found.items()}
        if self.verdicts:
            held = sum(one.passed for one in self.verdicts)
            exact |= {"total": Fraction(held, len(self.verdicts)), ALL_CRITERIA: Fraction(held == len(self.verdicts))}
        return exact


@dataclass(slots=True)
class Examination:
    """What one evaluation found: at one step, sampled or greedy."""

    step: int
    rewards: dict[str, dict[str, list[Fraction]]] = field(default_factory=dict[str, dict[str, list[Fraction]]])
    """By name of the value and item: of every answer."""
    shown: dict[str, TaskRollout] = field(default_factory=dict[str, TaskRollout])
    """The first answer to each item."""
    texts: Counter[str] = field(default_factory=Counter[str])

    places: Places = field(default_factory=Places)

    def take(self, one: TaskRollout) -> None:
        """Count one answer."""
        for name, value in one.values.items():
            self.rewards.setdefault(name, {}).setdefault(one.prompt_id, []).append(value)
        self.shown.setdefault(one.prompt_id, one)
        self.texts[one.text] += 1

    def by_item(self, name: str = "total") -> dict[str, Fraction]:
        """Return the mean of a term over each item's answers."""
        return {
            item: sum(values, Fraction()) / len(values) for item, values in sorted(self.rewards.get(name, {}).items())
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """A judge's work in a run."""

    judge: str
    ledger: LedgerRecord
    """The sum of every asking. `dollars` is None where one has no known price."""
    criteria: dict[Place, str]
    """Text of each criterion that is known."""
    trained: Places = field(default_factory=Places)
    """Verdicts on training answers."""
    texts: Counter[str] = field(default_factory=Counter[str])
    """Number of times that each text was written."""

    def take(self, one: TaskRollout, places: Places) -> None:
        """Count the verdicts on an answer."""
        self.texts[one.text] += 1
        for number, verdict in enumerate(one.verdicts):
            at = (one.prompt_id, number)
            places.setdefault(at, []).append(verdict.passed)
            if at not in self.criteria and (rule := rule_in(verdict.rationale)):
                self.criteria[at] = rule

    def criterion(self, place: Place) -> str:
        """Return the text of a criterion."""
        return self.criteria.get(place) or f"criterion {place[1] + 1} of {place[0]}"

    def by_criterion(self, places: Places) -> dict[str, list[Fraction]]:
        """Return the shares of each criterion that held, one an item that has it."""
        found: dict[str, list[Fraction]] = {}
        for place, held in sorted(places.items()):
            found.setdefault(self.criterion(place), []).append(Fraction(sum(held), len(held)))
        return found


def rule_in(rationale: str) -> str:
    """Return the rule that a judge by rules tells of; empty where it is a model's reasoning."""
    verdict, _, rule = rationale.partition(": ")
    return rule if verdict in ("holds", "fails") else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRunRecords:
    """A run on a task and all that its page needs."""

    run: Run
    task: TaskRecord
    sections: tuple[SectionRecord, ...]
    sampled: tuple[Examination, ...]
    """By step."""
    greedy: tuple[Examination, ...]
    tests: Mapping[str, Examination]
    """Last evaluation of every other split, such as the test's."""
    failures: Mapping[Cause, int]
    rollouts: int
    """Failed ones included."""
    groups: Mapping[tuple[int, str], Sequence[float]]
    """Rewards of the training answers that did not fail, by step and item."""
    judging: Judging | None
    notes: tuple[str, ...]

    @property
    def score(self) -> str:
        """Name of what `total` is in an evaluation."""
        return "pass rate" if self.judging else "reward"

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of values beside the score, where there are several."""
        if self.judging:
            return (ALL_CRITERIA,)
        return self.task.terms if len(self.task.terms) > 1 else ()

    @property
    def units(self) -> Mapping[str, str]:
        """Unit of every item that belongs to one of several items."""
        return {one.id: one.unit for one in self.task.items if one.unit and one.unit != one.id}

    @property
    def held_out(self) -> bool:
        """True if what is examined is not trained on."""
        return self.run.config.data.test != 0

    @property
    def at_test(self) -> TaskRunRecords:
        """The same run with its test as the only evaluation, where it has one."""
        if Split.TEST not in self.tests:
            return self
        greedy = self.tests.get(Split.TEST_GREEDY)
        return replace(
            self,
            task=msgspec.structs.replace(self.task, items=self.task.tested or self.task.items),
            sampled=(self.tests[Split.TEST],),
            greedy=() if greedy is None else (greedy,),
        )


def read_task_run(run: Run) -> TaskRunRecords:
    """Read everything of a run on a task."""
    notes = list(run.notes)
    task = read_whole(run.folder / TASK, TaskRecord, notes) or TaskRecord()
    # They are written at the end: that they are missing says nothing new.
    sections = read_whole(run.folder / SECTIONS, _Sections, []) or _Sections()
    judging = _judging(run, notes)
    exams: dict[tuple[str, int], Examination] = {}
    failures: Counter[Cause] = Counter()
    groups: dict[tuple[int, str], list[float]] = {}
    rollouts = 0
    for one in json_lines(run.folder / ROLLOUTS, TaskRollout, notes):
        rollouts += 1
        trained = groups.setdefault((one.step, one.prompt_id), []) if one.split == Split.TRAIN else None
        if one.failure is not None or (one.total is None and not one.verdicts):
            cause = one.failure or FailureRecord(what="no reward")
            failures[Cause(one.split, cause.where, cause.what)] += 1
            continue
        exam = None
        if trained is not None:
            trained.append(float(one.values["total"]) if one.total is None else one.total)
        else:
            exam = exams.setdefault((one.split, one.step), Examination(one.step))
            exam.take(one)
        if judging is not None:
            judging.take(one, judging.trained if exam is None else exam.places)
    return TaskRunRecords(
        run=run,
        task=task,
        sections=sections.sections,
        sampled=_of_split(exams, Split.EVAL),
        greedy=_of_split(exams, Split.EVAL_GREEDY),
        tests={
            split: exam for (split, _), exam in sorted(exams.items()) if split not in (Split.EVAL, Split.EVAL_GREEDY)
        },
        failures=dict(sorted(failures.items())),
        rollouts=rollouts,
        groups=groups,
        judging=judging,
        notes=tuple(notes),
    )


def _judging(run: Run, notes: list[str]) -> Judging | None:
    """Return who judged, for what criteria, and what that took; None: nobody judges."""
    judge = str((run.config.reward or {}).get("judge", ""))
    if not judge:
        return None
    tasks = json_lines(run.folder / TASKS, CriteriaRecord, notes)
    places = chain.from_iterable(
        (((task.task_id, number), criterion) for number, criterion in enumerate(task.criteria)) for task in tasks
    )
    ledger = summed(list(json_lines(run.folder / LEDGER, LedgerRecord, notes)))
    return Judging(judge=judge, ledger=ledger, criteria=dict(places))


def _of_split(exams: Mapping[tuple[str, int], Examination], split: str) -> tuple[Examination, ...]:
    return tuple(exam for (name, _), exam in sorted(exams.items()) if name == split)
