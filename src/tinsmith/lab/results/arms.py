"""Runs on labels with their rollouts, grouped into arms of runs that differ by seed alone.

A file of rollouts may be far larger than what a page can hold; nothing but the answers of evaluations and a choice to
be shown is kept.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.labels.contracts import Outcome, Subject
from tinsmith.lab.results.systems import System, measures_of, rival, systems_of
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.reader import (
    TaskRunRecords,
    by_seed,
    distinct,
    named_base,
    numbered,
    read_baselines,
    read_rollouts,
    seedless,
)
from tinsmith.lab.runs.records import Cause, Config, RolloutRecord, Row, Run, Split
from tinsmith.lab.strict_json import NotJsonError, read_json
from tinsmith.lab.study.measures import ArmRuns, Results
from tinsmith.lab.study.study import Arm, Score
from tinsmith.pages.measures import BOOTSTRAP, Measures, in_turn
from tinsmith.stats.estimates import Bootstrap, Runs
from tinsmith.stats.evaluation import Answered, Evaluation, combine
from tinsmith.stats.gate import Learned
from tinsmith.stats.rates import Metric
from tinsmith.types.confusion_scores import chance
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from tinsmith.lab.study.sizes import StudyArm

SHUFFLED = frozenset({"control/shuffled_labels", "joint/shuffled_labels"})
EXACT = "control/exact_gradient"  # Names of the controls.
OFFSETS = " with offsets"  # Ends the name of an arm whose decisions have logit offsets.
SHOWN = 1000  # Most rollouts on one page.
_ROUNDING = 1e-9
_UNPARSED: Final = (Outcome.EMPTY, Outcome.FENCED, Outcome.NOT_JSON)
TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ladder/baseline": "RL (baseline)",
        "ladder/exp1": "RL (explained)",
        "ladder/exp2": "RL (stronger)",
        "ladder/exp3": "RL (checklist)",
        "ladder/exp4": "RL (accuracy)",
        "ladder/exp5": "RL (weighted)",
        "remedy/exp6": "RL (macro-F1)",
        "remedy/exp7": "RL (shares)",
        "remedy/exp8": "RL (floor)",
        "remedy/exp10": "RL (product)",
        "remedy/sft_then_rl": "SFT then RL",
        "control/shuffled_labels": "RL (shuffled)",
        "control/exact_gradient": "RL (exact)",
        "control/zero_shot": "Before training",
        "sft/lora": "LoRA SFT",
        "sft/dora": "DoRA SFT",
        "sft/qlora": "QLoRA SFT",
        "sft/qdora": "QDoRA SFT",
        # Its decisions with offsets stand beside it, under this name and theirs.
        "sft/lora_offset": "LoRA SFT",
        "joint/disruption_novelty": "Both labels",
        "joint/shuffled_labels": "Both (shuffled)",
    }
)
"""Name of an arm on a page, by that of its experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRun(TaskRunRecords):
    """Run on labels, with everything read from its rollouts."""

    evaluations: Mapping[tuple[str, int], Evaluation]  # By split and step, those of training left out.
    examples: tuple[RolloutRecord, ...]
    """A choice of at most SHOWN, by split in their fixed order, then step, paper and sample; see `in_turn`."""
    two_labels: bool  # True if the run answers for another label too, of which nothing is said here.

    def last(self, split: Split) -> Evaluation | None:
        """Return the last evaluation on a split."""
        steps = [step for name, step in self.evaluations if name == split]
        return self.evaluations[split, max(steps)] if steps else None

    def disagreements(self) -> tuple[str, ...]:
        """Return sentences on metrics of the training that differ from those of the rollouts."""
        sentences: list[str] = []
        for (split, step), evaluation in self.evaluations.items():
            # The test is written in the last line, whichever step's policy it is of.
            line = step if split.startswith("eval") else self.run.last_step
            row = self.run.metrics.get(line, {}) if line is not None else {}
            confusion = evaluation.confusion()
            for metric in (Metric.LABEL_MATCH, Metric.MACRO_F1):
                reported, counted = row.get(f"{split}/{metric}"), confusion.score(metric)
                if reported is not None and abs(reported - counted) > _ROUNDING:
                    here = f"{split}/{metric} at step {step} is {reported:.4f} in metrics.jsonl"
                    sentences.append(f"{here}, but the rollouts give {counted:.4f}.")
        return tuple(sentences)


def gather(run: Run, subject: str | None = None) -> LabelRun:
    """Read the rollouts of a run; with a `subject`, the answers about this one of several labels."""
    notes = list(run.notes)
    answers: dict[tuple[str, int], dict[str, Answered]] = {}
    given: dict[tuple[str, int], set[str]] = {}
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
        given.setdefault((rollout.split, rollout.step), set()).add(rollout.prompt_id)
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
            evaluations[split, step] = Evaluation(run.labels, ordered, len(given[split, step]))
        except DataError as error:
            notes.append(f"The rollouts of {split} at step {step} cannot be scored: {error.what}.")
    order = {split.value: place for place, split in enumerate(Split)}
    chosen = in_turn([[one for *_, one in sorted(kinds[kind], reverse=True)] for kind in sorted(kinds)], SHOWN)
    choice = sorted(chosen, key=lambda one: (order.get(one.split, len(order)), one.step, one.prompt_id, one.sample))
    return LabelRun(
        run=run,
        evaluations=evaluations,
        failures=dict(sorted(failures.items())),
        rollouts=count,
        examples=tuple(choice),
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


def members_of(run: Run) -> dict[str, LabelRun]:
    """Return the records of each of a run's labels."""
    if run.config.kind is not Kind.JOINT:
        return {run.config.task.name: gather(run)}
    return {subject.value: label_alone(run, subject) for subject in Subject}


def label_alone(run: Run, subject: Subject) -> LabelRun:
    """Return one label of a two-label run, with the names of a run on that label alone."""
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
    """Return a step's metrics of one task: `eval/TASK/name` as `eval/name`, without other tasks'."""
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


@dataclass(frozen=True, slots=True)
class LabelArm(ArmRuns):
    """Finished runs of an experiment on one label, and the split on which claims are based."""

    reads: tuple[LabelRun, ...]
    split: Split = Split.TEST
    bootstrap: Bootstrap = BOOTSTRAP  # Of the intervals in tables.
    tuned: StudyArm | None = None  # Of a study, at its learning rate.
    _systems: dict[Split, System] = field(init=False, default_factory=dict[Split, System])

    rival_examples: ClassVar[int | None] = None  # It is fitted until more of them change nothing.

    @property
    def name(self) -> str:
        """Its name on the page."""
        return self.arm.label

    @property
    def first(self) -> Run:
        """The run with the smallest seed."""
        return self.reads[0].run

    @property
    def config(self) -> Config:
        """Configuration of the run with the smallest seed."""
        return self.first.config

    @property
    def parent(self) -> str | None:
        """The parent's name, without version."""
        parent = self.config.parent
        return parent.partition("@")[0] if parent else None

    @property
    def shuffled(self) -> bool:
        """True of a control on shuffled labels."""
        return self.config.name in SHUFFLED

    @property
    def num_items(self) -> int:
        """Number of papers that all seeds answered on the split that counts."""
        found = self.answers_on(self.split)
        return 0 if found is None else found.num_items

    @property
    def examples(self) -> int | None:
        """Number of a run's training papers, with repetitions; None if the settings leave it open."""
        trained = {(run.config.data.fingerprint, _examples(run.config)) for run in self.runs}
        return next(iter(trained))[1] if len(trained) == 1 else None

    def seed_words(self, split: Split | None = None) -> str:
        """Return its seeds in words; with a split, those with answers there."""
        seeds = [one.run.config.seed for one in (self.answered(split) if split else self.reads)]
        return ", ".join("unknown" if seed is None else str(seed) for seed in seeds)

    def answered(self, split: Split) -> tuple[LabelRun, ...]:
        """Return the runs with answers on a split."""
        return tuple(one for one in self.reads if one.last(split) is not None)

    def answers_on(self, split: Split = Split.TEST) -> Runs | None:
        """Return the last answers on a split, a row a seed, to the papers that all seeds answered; None without any."""
        found = [one for read in self.reads if (one := read.last(split)) is not None]
        by_run = [{answer.item for answer in one.answers} for one in found]
        return combine(self.name, found) if found and set[str].intersection(*by_run) else None

    @property
    def chance(self) -> float:
        """Balanced accuracy of guessing on the papers of the test, or of the last validation without a test."""
        answers = self.answers_on() or self.answers_on(Split.EVAL)
        return chance(self.first.labels if answers is None else answers.golds.tolist())

    @property
    def systems(self) -> Mapping[Split, System]:
        """Metrics on the test split, or of the last validation without a test."""
        if not self._systems:
            self._systems.update(systems_of(self, self.bootstrap))
        return self._systems

    @property
    def scores(self) -> Measures:
        """Figures of the answers that count in claims."""
        found = self.answers_on(self.split)
        return {} if found is None else measures_of(found, draws=self.bootstrap)

    def system(self, score: Score) -> Runs:
        """Return the answers that count in claims, whatever the score; in a study every seed must have some.

        Raises:
            DataError: answers are missing.
        """
        del score
        found = self.answers_on(self.split)
        if found is None or len(self.answered(self.split)) < (len(self.reads) if self.tuned else 1):
            raise DataError(f"a run of {self.name} has no answers to the test split", field="cells")
        return found

    def rival(self, name: str, score: Score) -> Runs | None:
        """Return a baseline's answers to the same papers; None if the slice lacks the baseline."""
        return rival(name, self.first, self.system(score))

    def learned(self, score: Score, control: ArmRuns | None, untrained: ArmRuns | None) -> Learned[Any]:
        """Return the evidence that a label was learned: answers beside those by metadata and of the control."""
        del untrained
        system, other = self.system(score), None if control is None else control.system(score)
        if isinstance(other, Runs):  # against the true labels: its own may be the shuffled ones
            there = set(other.items)
            items = [item for item in system.items if item in there]
            golds = system.on(items).golds
            other = Runs(other.name, system.labels, tuple(items), golds, other.on(items).predicted)
        return Learned(system=system, metadata=self.rival(Baseline.METADATA, score), control=other)


def _examples(config: Config) -> int | None:
    settings = {key: value for key, value in config.settings.items() if isinstance(value, int)}
    steps, before = config.steps, settings.get("sft_steps", 0)
    batch = settings.get("batch_size" if config.kind is Kind.SFT else "groups_per_batch")
    batch_before = settings.get("sft_batch_size") if before else 0
    if steps == 0:
        return 0
    if steps is None or batch is None or batch_before is None:
        return None
    return (steps - before) * batch + before * batch_before


def label_arms(results: Results) -> Mapping[str, LabelArm]:
    """Return the arms on labels of a study, but for those that are read aside."""
    every = {name: arm for name, arm in results.arms.items() if isinstance(arm, LabelArm)}
    return {name: arm for name, arm in every.items() if not arm.arm.is_aside}


def arms_of(reads: Iterable[LabelRun], bootstrap: Bootstrap = BOOTSTRAP) -> tuple[LabelArm, ...]:
    """Group runs that differ by seed alone; arms in order of first occurrence, seeds ascending.

    Arms are called by the titles of their experiments; one without a title by its name.
    """
    groups = by_seed(reads, identity, _progress)
    firsts = [group[0].run.config for group in groups]
    called = [TITLES.get(config.name, config.name) for config in firsts]
    apart = distinct(called, [_distinguishing(group[0].run) for group in groups])
    names = numbered([f"{title} ({keys})" if keys else title for title, keys in zip(called, apart, strict=True)])
    return tuple(
        LabelArm(Arm(name, name), group, bootstrap=bootstrap) for name, group in zip(names, groups, strict=True)
    )


def identity(run: LabelRun) -> tuple[object, ...]:
    """Return everything that runs of one arm have in common."""
    config = run.run.config
    settings = (config.title, config.kind, seedless(config.overrides), seedless(config.settings))
    return *settings, config.task.name, config.model_name, named_base(run.run), config.data.fingerprint


def _progress(one: LabelRun) -> tuple[int, ...]:
    step = one.run.last_step
    return one.last(Split.TEST) is not None, one.last(Split.EVAL) is not None, -1 if step is None else step


def _distinguishing(run: Run) -> dict[str, object]:
    config = run.config
    own = {"kind": config.kind.value, "model": config.model_name, **named_base(run), "papers": config.data.name}
    return {**seedless(config.settings), **seedless(config.overrides), **own, "slice": config.data.fingerprint[:8]}


def by_descent(arms: Sequence[LabelArm]) -> tuple[tuple[int, LabelArm], ...]:
    """Return arms, each below its parent experiment, with the number of its ancestors among them."""
    placed: list[tuple[int, LabelArm]] = []
    names = {arm.config.name for arm in arms}

    def place(arm: LabelArm, depth: int) -> None:
        if any(arm is other for _, other in placed):
            return
        placed.append((depth, arm))
        for child in arms:
            if child.parent == arm.config.name != child.config.name:
                place(child, depth + 1)

    for arm in (*(arm for arm in arms if arm.parent not in names), *arms):  # last, whose parent is its own descendant
        place(arm, 0)
    return tuple(placed)
