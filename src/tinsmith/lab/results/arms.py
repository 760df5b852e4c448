"""Runs on labels: their rollouts, gone through once, and arms of runs that differ by the seed alone.

A file of rollouts may be far larger than what a page can hold; nothing but the answers of evaluations and a choice to
be shown is kept.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from tinsmith.lab.labels.contracts import Outcome, Subject
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.reader import read_baselines, read_rollouts
from tinsmith.lab.runs.records import Cause, Config, RolloutRecord, Row, Run, Split
from tinsmith.lab.strict_json import NotJsonError, read_json
from tinsmith.pages.measures import in_turn
from tinsmith.pages.tables import shown
from tinsmith.stats.estimates import Runs
from tinsmith.stats.evaluation import Answered, Evaluation, combine
from tinsmith.stats.gate import ParityRecord
from tinsmith.stats.rates import Metric
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

SHUFFLED = frozenset({"control/shuffled_labels", "joint/shuffled_labels"})
EXACT = "control/exact_gradient"  # Names of the controls.
OFFSETS = " with offsets"  # Ends the name of an arm whose decisions have logit offsets.
SHOWN = 1000  # Most rollouts on one page.
_ROUNDING = 1e-9
_UNPARSED: Final = (Outcome.EMPTY, Outcome.FENCED, Outcome.NOT_JSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One run of an arm, and what was found in its rollouts."""

    run: Run
    evaluations: Mapping[tuple[str, int], Evaluation]  # By split and step, those of training left out.
    failures: Mapping[Cause, int]
    rollouts: int  # All of them, failed ones included.
    shown: tuple[RolloutRecord, ...]
    """A choice of at most SHOWN, by split in their fixed order, then step, paper and sample; see `in_turn`."""
    notes: tuple[str, ...]
    two_labels: bool  # True if the run answers for another label too, of which nothing is said here.

    def last(self, split: Split) -> Evaluation | None:
        """Return the last evaluation on a split."""
        steps = [step for name, step in self.evaluations if name == split]
        return self.evaluations[split, max(steps)] if steps else None

    def disagreements(self) -> tuple[str, ...]:
        """Say where the metrics that training wrote are not what the rollouts give."""
        found: list[str] = []
        for (split, step), evaluation in self.evaluations.items():
            # The test is written in the last line, whichever step's policy it is of.
            line = step if split.startswith("eval") else self.run.last_step
            row = self.run.metrics.get(line, {}) if line is not None else {}
            confusion = evaluation.confusion()
            for metric in (Metric.LABEL_MATCH, Metric.MACRO_F1):
                reported, counted = row.get(f"{split}/{metric}"), confusion.score(metric)
                if reported is not None and abs(reported - counted) > _ROUNDING:
                    here = f"{split}/{metric} at step {step} is {reported:.4f} in metrics.jsonl"
                    found.append(f"{here}, but the rollouts give {counted:.4f}.")
        return tuple(found)


def gather(run: Run, subject: str | None = None) -> Member:
    """Read the rollouts of a run; with a `subject`, what answers about several labels say of this one."""
    notes: list[str] = []
    answers: dict[tuple[str, int], dict[str, Answered]] = {}
    failures: Counter[Cause] = Counter()
    kinds: dict[tuple[str, str, str], list[tuple[int, int, RolloutRecord]]] = {}
    count = again = 0
    for rollout in read_rollouts(run.folder, notes, subject):
        count += 1
        # A kind is a split, a true label, and what came of it: the label answered, the fault, or the failure.
        came = "failure" if rollout.failure else rollout.predicted or f"invalid {rollout.outcome}"
        heap = kinds.setdefault((rollout.split, rollout.gold, came), [])
        # Within a kind a hash of the place decides, so that all steps occur and the same files give the same choice: a
        # heap of the negated hashes keeps the smallest, and the count decides where two are equal.
        place = derive(0, "shown", rollout.split, rollout.step, rollout.prompt_id, rollout.sample)
        (heapq.heappush if len(heap) < SHOWN else heapq.heappushpop)(heap, (-place, -count, rollout))
        if rollout.failure is not None:
            failures[Cause(rollout.split, rollout.failure.where, rollout.failure.what)] += 1
        elif rollout.split != Split.TRAIN:
            by_paper = answers.setdefault((rollout.split, rollout.step), {})
            again += rollout.prompt_id in by_paper
            by_paper.setdefault(rollout.prompt_id, _answered(rollout))
    if again:
        notes.append(f"{again} evaluation rollouts answer a paper again; the first answer is counted.")
    evaluations: dict[tuple[str, int], Evaluation] = {}
    for (split, step), by_paper in sorted(answers.items()):
        # By paper, so that two files with the same answers give the same intervals.
        ordered = tuple(by_paper[item] for item in sorted(by_paper))
        try:
            evaluations[split, step] = Evaluation(labels=run.labels, answers=ordered)
        except DataError as error:
            notes.append(f"The rollouts of {split} at step {step} cannot be scored: {error.what}.")
    order = {split.value: place for place, split in enumerate(Split)}
    chosen = in_turn([[one for *_, one in sorted(kinds[kind], reverse=True)] for kind in sorted(kinds)], SHOWN)
    choice = sorted(chosen, key=lambda one: (order.get(one.split, len(order)), one.step, one.prompt_id, one.sample))
    return Member(
        run=run,
        evaluations=evaluations,
        failures=dict(sorted(failures.items())),
        rollouts=count,
        shown=tuple(choice),
        notes=tuple(notes),
        two_labels=subject is not None,
    )


def _answered(rollout: RolloutRecord) -> Answered:
    # An outcome says whether an answer is JSON, but for a thought, which hides what else there is.
    parse_ok = rollout.outcome in tuple(Outcome) and rollout.outcome not in _UNPARSED
    if rollout.outcome == Outcome.THINK:
        try:
            read_json(rollout.text)
        except NotJsonError:
            parse_ok = False
    return Answered(
        item=rollout.prompt_id,
        gold=rollout.gold,
        predicted=rollout.predicted,
        outcome=rollout.outcome,
        parse_ok=parse_ok,
        confidence=rollout.confidence,
    )


def members_of(run: Run) -> dict[str, Member]:
    """Return what a run says of each of its labels."""
    if run.config.kind is not Kind.JOINT:
        return {run.config.task.name: gather(run)}
    return {subject.value: label_alone(run, subject) for subject in Subject}


def label_alone(run: Run, subject: Subject) -> Member:
    """Return one label of a run on two, under the names of a run on it alone."""
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
    return gather(view, name)


def _row(row: Row, task: str) -> Row:
    """Return a step's metrics as they would be of one task: `eval/TASK/name` as `eval/name`, others' left out."""
    others = {subject.value for subject in Subject}
    metrics: dict[str, float | None] = {}
    for key, value in row.items():
        group, _, rest = key.partition("/")
        named, _, inner = rest.partition("/")
        if group == "alarm":  # `alarm/KIND/TASK/label`
            of, _, label = inner.partition("/")
            if of == task:
                metrics["/".join(part for part in (group, named, label) if part)] = value
        elif named == task:
            metrics[f"{group}/{inner}"] = value
        elif named not in others and f"{group}/{task}/{rest}" not in row:
            metrics[key] = value
    return metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """An experiment with all its seeds."""

    name: str  # Unique on the page.
    members: tuple[Member, ...]

    @property
    def first(self) -> Run:
        """The run with the smallest seed."""
        return self.members[0].run

    @property
    def experiment(self) -> str:
        """The experiment's name, without version."""
        return self.first.config.name

    @property
    def parent(self) -> str | None:
        """The parent's name, without version."""
        parent = self.first.config.parent
        return parent.partition("@")[0] if parent else None

    @property
    def kind(self) -> Kind:
        """The loop its runs learn by."""
        return self.first.config.kind

    @property
    def shuffled(self) -> bool:
        """True of a control on shuffled labels."""
        return self.experiment in SHUFFLED

    @property
    def two_labels(self) -> bool:
        """True if its runs answer for another label too."""
        return self.members[0].two_labels

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in the task's order."""
        return self.first.labels

    def seeds(self, split: Split | None = None) -> str:
        """Return its seeds in words; with a split, those whose answers count there."""
        seeds = [m.run.config.seed for m in (self.counted(split) if split else self.members)]
        return ", ".join("unknown" if seed is None else str(seed) for seed in seeds)

    def counted(self, split: Split) -> tuple[Member, ...]:
        """Return the members whose answers count: those that have any, one a seed, as a seed again says nothing new."""
        found: dict[int | str, Member] = {}
        for place, member in enumerate(self.members):
            seed = member.run.config.seed
            if member.last(split) is not None:
                found.setdefault(f"unknown {place}" if seed is None else seed, member)
        return tuple(found.values())

    def answers(self, split: Split = Split.TEST) -> Runs | None:
        """Return the last answers on a split, a row a seed, to the papers that all seeds answered; None without any."""
        found = [one for m in self.counted(split) if (one := m.last(split)) is not None]
        by_run = [{answer.item for answer in one.answers} for one in found]
        return combine(self.name, found) if found and set[str].intersection(*by_run) else None

    def parity(self) -> ParityRecord | None:
        """Return sampler against trainer over all training steps of all seeds; None where never compared."""
        rows = [row for member in self.members for row in member.run.metrics.values()]
        unequal_bits = [value for row in rows if (value := row.get("optim/unequal_logprob_bits")) is not None]
        return ParityRecord(steps=len(unequal_bits), unequal_bits=int(sum(unequal_bits))) if unequal_bits else None


def arms_of(members: Iterable[Member]) -> tuple[Arm, ...]:
    """Put runs that differ by their seed alone together; arms in the order they first occur, seeds ascending."""
    groups: dict[str, list[Member]] = {}
    for member in members:
        config = member.run.config
        # All that was asked for of a run but the seed.
        identity = (config.title, config.kind, seedless(config.overrides), seedless(config.settings))
        key = json.dumps((*identity, config.task.name, config.model_name, config.data.fingerprint), sort_keys=True)
        groups.setdefault(key, []).append(member)
    found = [sorted(some, key=lambda one: (one.run.config.seed or 0, str(one.run.folder))) for some in groups.values()]
    names = _names([group[0].run.config for group in found])
    return tuple(Arm(name=name, members=tuple(group)) for name, group in zip(names, found, strict=True))


def seedless(settings: Mapping[str, object]) -> dict[str, object]:
    """Return settings but for the seed, in which runs of one arm differ."""
    return {key: value for key, value in settings.items() if key != "seed"}


def by_descent(arms: Sequence[Arm]) -> tuple[tuple[int, Arm], ...]:
    """Return arms, each experiment below its parent, with the number of its forebears among them."""
    placed: list[tuple[int, Arm]] = []
    names = {arm.experiment for arm in arms}

    def place(arm: Arm, depth: int) -> None:
        if any(arm is other for _, other in placed):
            return
        placed.append((depth, arm))
        for child in arms:
            if child.parent == arm.experiment and child.experiment != arm.experiment:
                place(child, depth + 1)

    for arm in (*(arm for arm in arms if arm.parent not in names), *arms):  # last, whose parent is its own descendant
        place(arm, 0)
    return tuple(placed)


def _names(firsts: Sequence[Config]) -> list[str]:
    """Return a name for each arm: its title, with what it differs in from others of that title."""
    named: list[str] = []
    for config in firsts:
        alike = [_distinguishing(other) for other in firsts if other.title == config.title]
        own = _distinguishing(config)
        keys = [key for key in own if any(other.get(key) != own[key] for other in alike)]
        listed = ", ".join(f"{key}={shown(own[key])}" for key in keys)
        named.append(f"{config.title} ({listed})" if listed else config.title)
    # Whatever is still alike gets a number.
    places = [named[: place + 1].count(name) for place, name in enumerate(named)]
    return [f"{name} [{place}]" if named.count(name) > 1 else name for name, place in zip(named, places, strict=True)]


def _distinguishing(config: Config) -> dict[str, object]:
    own = {"kind": config.kind.value, "model": config.model_name, "papers": config.data.name}
    return {**seedless(config.settings), **seedless(config.overrides), **own, "slice": config.data.fingerprint[:8]}
