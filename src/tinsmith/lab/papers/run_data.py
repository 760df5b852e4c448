"""Labelled papers as the data of a run: a slice or papers passed in Python; forecast and watch.

What a reward makes optimal is told before a run, by posteriors of what the slice's own baseline tells of a paper:
P(true label | what TF-IDF with metadata predicts), one kind of paper for each prediction. A model that reads better
than the baseline has sharper ones.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.baselines.report import Baseline, read_report
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.splits import Split
from tinsmith.lab.course import Course, Tested
from tinsmith.lab.experiment.estimate import RUN_MEGABYTES, Lengths, pace_of, run_seconds, time_and_disk
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.experiment.key_text import At
from tinsmith.lab.experiment.materials import named_model
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.labels.contracts import Answer, Confidence, Subject
from tinsmith.lab.labels.labelled_papers import LabelGradient, LabelledPapers, Papers, information, tested_with_offset
from tinsmith.lab.labels.rewards import make_label_reward, make_reward, paid_alone, reward_optimum
from tinsmith.lab.labels.task import Item, Task
from tinsmith.lab.live.watch import Examinee, Judged, Watch
from tinsmith.lab.nano_base import missing_base, slower_here
from tinsmith.lab.papers.compute_spent import LabelCourse
from tinsmith.lab.papers.labels import label_task_of, on_papers
from tinsmith.lab.papers.worlds import PaperBaseRecipe, is_missing, nano_base, paper_conversations, papers_of, slice_in
from tinsmith.lab.rollouts import Group
from tinsmith.lab.runs.files import BASELINES, Kind
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import Score
from tinsmith.lab.schedule import due, subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import CommonSettings, Gradient, RlSettings, Selection, SftSettings
from tinsmith.renderers.choose import renderer_for
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.evaluation import Evaluations
from tinsmith.stats.groups import LabelGroups
from tinsmith.stats.incentives import Posteriors
from tinsmith.stats.monitors import Alarm, CollapseMonitor, MonitorState, Signals
from tinsmith.stats.rates import ClassMetric, Metric
from tinsmith.types.home import home
from tinsmith.types.waits import Say, unsaid

if TYPE_CHECKING:
    import tinker
    from transformers import PreTrainedTokenizerBase


DRAWS = 1000  # Resamples behind the interval of balanced accuracy; the test split's own are drawn in the report.


class _State(msgspec.Struct, frozen=True, kw_only=True):
    monitor: MonitorState
    rewards: tuple[float, ...]  # Since the last evaluation.


@dataclass(slots=True)
class LabelWatch(Watch[Item, Answer]):
    """Watch for collapse, by subject."""

    study: LabelledPapers
    select_by: Selection
    _monitors: dict[Subject, CollapseMonitor] = field(init=False)
    _rewards: dict[Subject, list[float]] = field(init=False)  # Since the last evaluation.

    def __post_init__(self) -> None:
        self._monitors = {one: CollapseMonitor(one.labels) for one in self.study.task.subjects}
        self._rewards = {one: [] for one in self.study.task.subjects}

    def observe(self, step: int, groups: Sequence[ScoredGroup[Item, Answer]]) -> list[Alarm]:
        """As of a Watch."""
        begun: list[Alarm] = []
        for place, (subject, monitor) in enumerate(self._monitors.items()):
            by_label: defaultdict[str, LabelGroups] = defaultdict(LabelGroups)
            read: list[bool] = []
            for group in groups:
                gold = group.item.golds[place]
                predicted = [one.rollout.answer.alone(place).predicted for one in group.scored]
                paid = [paid_alone(one.terms, subject) for one in group.scored]
                by_label[gold] += LabelGroups.of(paid, [label == gold for label in predicted])
                read += [label is not None for label in predicted]
                self._rewards[subject] += paid
            begun += self._named(subject, monitor.observe_answers(step, sum(read), len(read)))
            begun += self._named(subject, monitor.observe_groups(step, by_label))
        return begun

    def judge(self, policy: Examinee, groups: Sequence[Group[Item, Answer]], metrics: Mapping[str, float]) -> Judged:
        """As of a Watch; the labels' probabilities are looked at too."""
        del metrics
        task, evaluation = self.study.task, self.study.evaluations(groups)
        label_mi = information(policy.trainer, self.study, [group[0].item for group in groups])
        begun, balanced = list[Alarm](), Metric.BALANCED_ACCURACY
        for subject, monitor in self._monitors.items():
            alone, rewards = evaluation.tasks[subject], self._rewards[subject]
            signals = Signals(
                step=policy.step,
                confusion=alone.confusion(),
                balanced_accuracy=alone.estimates(Bootstrap(draws=DRAWS), (balanced,))[balanced.value].interval,
                label_information=label_mi[subject],
                train_reward=sum(rewards) / len(rewards) if rewards else None,
            )
            rewards.clear()
            begun += self._named(subject, monitor.observe_evaluation(signals))
        return Judged(
            score=score(evaluation, policy.step, self.select_by),
            alarms=begun,
            metrics={f"{task.under('eval', subject)}/label_mi": label_mi[subject] for subject in task.subjects},
        )

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """As of a Watch."""
        found = [alarm for subject, one in self._monitors.items() for alarm in self._named(subject, one.alarms)]
        return tuple(sorted(found, key=lambda alarm: alarm.step))

    def state(self) -> object:
        """As of a Watch."""
        states = [
            _State(monitor=monitor.state(), rewards=tuple(self._rewards[subject]))
            for subject, monitor in self._monitors.items()
        ]
        return self.study.task.by_subject([msgspec.to_builtins(one) for one in states])

    def restore(self, state: object) -> None:
        """As of a Watch."""
        for (subject, monitor), saved in zip(self._monitors.items(), self.study.task.one_a_subject(state), strict=True):
            found = msgspec.convert(saved, _State)
            monitor.restore(found.monitor)
            self._rewards[subject] = list(found.rewards)

    def _named(self, subject: Subject, alarms: Sequence[Alarm]) -> list[Alarm]:
        """Return alarms with the name of their subject, if there are several."""
        alone = len(self._monitors) == 1
        return [alarm if alone else alarm.of_task(subject.value) for alarm in alarms]


def score(evaluation: Evaluations, step: int, select_by: Selection) -> Score:
    """Return a checkpoint's score; ties go to the larger minimum recall."""
    if select_by is Selection.LAST:
        value = float(step)
    else:
        value = evaluation.score(Metric(select_by.value))
    return Score(value, evaluation.score(Metric.MIN_CLASS_RECALL))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperData:
    """Papers of a run, and their entries in its folder."""

    plan: Plan
    papers: Papers
    data: Mapping[str, object]  # Which papers these are, wherever they lie; `sha256` is over all of them.
    source: Slice | None  # Where the papers are from, with its baselines; None: they were handed over.
    base: Path | None = None  # A nano base that reads these papers well enough; None: the one of their own.

    def identity(self) -> Mapping[str, object]:
        """Return the identity's fields beyond the plan's keys; `data` identifies the papers."""
        return {"prompt_sha256": label_task_of(self.plan).prompt_sha256, "data": dict(self.data)}

    def config(self) -> Mapping[str, object]:
        """Return the entries of `config.json`: `task`, `reward`, `data`."""
        paper_run, rewards = on_papers(self.plan), self.plan.reward_settings
        task = paper_run.label_task
        return {
            "task": {
                "name": task.name,
                "labels": list(task.labels),
                "prompt": task.prompt,
                "contract": task.contract.name,
                "with_metadata": task.with_metadata,
                "shuffle_labels": paper_run.shuffle_labels,
                **({"prompt_lines": list(task.prompt_lines)} if task.prompt_lines else {}),
            },
            "reward": None if self.plan.frame.kind is Kind.SFT else {"name": paper_run.reward, **rewards},
            "data": {
                "fingerprint": self.data["sha256"],
                "train": len(self.papers.train),
                "validation": len(self.papers.validation),
                "test": len(self.papers.test),
            },
        }

    def circumstances(self) -> Mapping[str, object]:
        """Return the location of the papers."""
        where, source = self.plan.circumstances.data, self.source
        return {
            "data": None if where is None else str(where.absolute()),
            "data_folder": None if source is None else str(source.folder.absolute()),
        }

    def nano_base(self, say: Say) -> Path:
        """Return the small base. It is trained on papers without labels, so that one serves a shuffled control too.

        Nor does it read lines that a search put before them.
        """
        return self.base or nano_base(PaperBaseRecipe(), self._read_by_base, self.papers, say)

    def missing_base(self) -> Mapping[Path, float]:
        """Return the minutes to build the base on two cores, by its place; empty if it is cached, or one is named."""
        if self.base or named_model(self.plan):
            return {}
        recipe = PaperBaseRecipe()
        return missing_base(recipe, paper_conversations(recipe, self._read_by_base, self.papers.train))

    @property
    def _read_by_base(self) -> Task:
        return replace(label_task_of(self.plan), prompt_lines=())

    def models(self) -> Mapping[str, str]:
        """Return the models that an embedded server serves beside the trained one: none."""
        return {}

    def before(self) -> Sequence[str]:
        """Return lines on the commonest pair of labels, and on the reward's optimum."""
        lines: list[str] = []
        if len(label_task_of(self.plan).subjects) > 1:
            papers, pairs = len(self.papers.train), Counter(item.golds for item in self.papers.train)
            pair, count = max(pairs.items(), key=lambda each: (each[1], each[0]))
            has = f"the commonest pair, {' and '.join(pair)}, has {count / papers:.3f} of them"
            lines.append(f"{papers} training papers with both labels; {has}")
        return lines if self.source is None else lines + best_policy_lines(self.plan, self.source)

    def begin(self, folder: RunFolder) -> None:
        """Copy the slice's baselines with their answers."""
        for name in (BASELINE_ANSWERS, BASELINES):
            if self.source is not None and (file := self.source.folder / name).exists():
                fresh = folder.path / f".{name}.new"
                shutil.copyfile(file, fresh)
                os.replace(fresh, folder.path / name)

    def subject(self, tokenizer: PreTrainedTokenizerBase) -> LabelledPapers:
        """Return the papers as a subject, with prompts and rewards."""
        plan, task = self.plan, label_task_of(self.plan)
        named = plan.entry.named_reward
        reward = make_label_reward(on_papers(plan).reward, task, **plan.reward_settings) if named else None
        renderer = renderer_for(tokenizer)
        return LabelledPapers(task=task, papers=self.papers, renderer=renderer, tokenizer=tokenizer, reward=reward)

    def course(self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection) -> LabelCourse:
        """Return the training and evaluation procedure."""
        del folder, connection
        return label_course(self.subject(tokenizer), self.plan.settings)

    def minutes(self) -> float | None:
        """Return the time of the run on two cores; None if the model is unknown."""
        return minutes(self.plan, papers=self.papers if self.source is None else None)


def data_of(plan: Plan, source: Slice) -> PaperData:
    """Return a slice's papers, labelled for the plan's task."""
    return PaperData(
        plan=plan,
        papers=papers_of(source, label_task_of(plan), shuffle_seed=shuffle_seed(plan)),
        data={"sha256": source.card.sha256, "rows": {one.value: source.card.splits[one].rows for one in Split}},
        source=source,
    )


def shuffle_seed(plan: Plan) -> int | None:
    """Return the seed that shuffles a plan's training labels; None for unshuffled ones."""
    return plan.settings.seed if on_papers(plan).shuffle_labels else None


def label_course(study: LabelledPapers, settings: CommonSettings) -> LabelCourse:
    """Return the training and evaluation procedure on papers, with tests of the chosen policy and the last."""

    def exact() -> LabelGradient:
        assert isinstance(settings, RlSettings)
        assert study.reward is not None, "nothing is rewarded"
        (reward,) = study.reward.rewards  # both labels in one answer have no exact gradient
        return LabelGradient(study=study, paid=reward.per_label(), group_size=settings.group_size)

    validation = subset(study.papers.validation, settings.eval_items)
    test = subset(study.papers.test, settings.test_items)

    def with_offset(chosen: tinker.SamplingClient, step: int) -> Tested:
        return tested_with_offset(chosen, study, validation, test, step)

    computed = isinstance(settings, RlSettings) and settings.gradient is Gradient.EXACT
    offset = isinstance(settings, SftSettings) and settings.logit_offset
    return Course(
        subject=study,
        settings=settings,
        watch=LabelWatch(study, settings.select_by),
        exact=exact if computed else None,
        tests_last=True,
        also_tested=with_offset if offset else None,
        other_requests=len(study.choices()) * (len(validation) + len(test)) if offset else 0,
    )


PROMPT_TOKENS = {At.NANO: 150, At.SMALL: 237, At.SEED: 440}
"""Of a paper with the nano base's tokenizer and brief prompt, and with SmolLM2's and the short one; the source notes',
from their log."""
ANSWER_TOKENS = {At.NANO: 14, At.SMALL: 19, At.SEED: 40}
CHARACTERS_PER_TOKEN = {At.NANO: 3.75, At.SMALL: 4.3, At.SEED: 4.3}
"""Of titles and abstracts: with the nano base's tokenizer (high energy physics), and with large vocabularies."""
ASKING_TOKENS = {At.NANO: 25, At.SMALL: 80, At.SEED: 250}
"""Tokens that each prompt adds to a paper's: brief, short, and a ladder's."""
TEST_ITEMS = 500  # Papers of a test split, where nothing limits it.
_WORLD_MINUTES = 1.0  # To build a synthetic world with its slice, and a small base, on the measured machine.
_BASE_MEGABYTES = 20  # Of them on disk.


def forecast_lines(plan: Plan) -> list[str]:
    """Return the numbers of trained and evaluated tokens, and the time they take."""
    settings = plan.settings
    length = _prompt_length(plan, None) + ANSWER_TOKENS[plan.frame.at]
    if isinstance(settings, RlSettings):
        by_reward = (settings.steps - settings.sft_steps) * settings.group_size * settings.groups_per_batch
        trained = by_reward + settings.sft_steps * settings.sft_batch_size
    else:
        assert isinstance(settings, SftSettings)
        trained = settings.steps * settings.batch_size
    evaluations = 1 + sum(due(step, settings.eval_every) for step in range(settings.steps))
    looked_at = 2 * evaluations * settings.eval_items + 4 * (settings.test_items or TEST_ITEMS)
    tokens = f"about {trained * length / 1e6:.1f} M tokens trained on, {looked_at * length / 1e6:.1f} M evaluated"
    world = "a synthetic world and " if is_missing(plan.circumstances.data, label_task_of(plan)) else ""
    return [
        f"{settings.steps} steps; {tokens}",
        *_tried(plan),
        *(f"first {world}a small base: {time_and_disk(a, _BASE_MEGABYTES)}" for a in missing_before(plan).values()),
        f"time: {time_and_disk(minutes(plan), RUN_MEGABYTES)}",
    ]


def _tried(plan: Plan) -> list[str]:
    task = label_task_of(plan)
    right, wrong = (tuple(subject.labels[place] for subject in task.subjects) for place in (0, 1))
    text = task.contract.answer_text(right, Confidence.MEDIUM)
    read = task.contract.parse(text)
    lines = [f"tried on a made-up answer: {text}", f"  parse gave {' and '.join(read.predicted_labels or ())}"]
    if plan.frame.kind is not Kind.SFT and plan.entry.named_reward:
        reward = make_label_reward(on_papers(plan).reward, task, **plan.reward_settings)
        paid = [
            [one.score([golds[place]], [read.alone(place)])[0].total for place, one in enumerate(reward.rewards)]
            for golds in (right, wrong)
        ]
        shown = [f"{sum(each) / len(each):g}" for each in paid]
        lines.append(f"  reward {shown[0]} if it is right, {shown[1]} if it is wrong")
    return lines


def world_minutes() -> float:
    """Return the minutes to build a synthetic world with its slice, and a small base, here."""
    return _WORLD_MINUTES * slower_here()


def missing_before(plan: Plan) -> Mapping[Path, float]:
    """Return the minutes to build a run's world and base on two cores, by the base's place; empty if they are there."""
    where, task = plan.circumstances, label_task_of(plan)
    if where.model_name is not None or where.base_url is not None:
        return {}
    if is_missing(where.data, task):
        return {home(): world_minutes()}
    papers = papers_of(slice_in(where.data, task, unsaid), task, shuffle_seed=None)
    return PaperData(plan=plan, papers=papers, data={}, source=None).missing_base()


def minutes(plan: Plan, prompt_tokens: int | None = None, papers: Papers | None = None) -> float | None:
    """Return the time of a run on papers on two cores; None if the model is unknown.

    `prompt_tokens` is said where it is known that a paper is longer or shorter than PROMPT_TOKENS; those of `papers`,
    or of a slice that is named, are estimated from its text.
    """
    pace = pace_of(plan)
    if pace is None:
        return None
    settings, tested = plan.settings, plan.settings.test_items or TEST_ITEMS
    lengths = Lengths(
        prompt=_prompt_length(plan, prompt_tokens, papers),
        answer=min(ANSWER_TOKENS[plan.frame.at], settings.max_tokens),
        labels=len(label_task_of(plan).labels),
        examined=settings.eval_items if papers is None else min(settings.eval_items, len(papers.validation)),
        tested=tested if papers is None else len(subset(papers.test, settings.test_items)),
    )
    return run_seconds(settings, lengths, pace) / 60


def _prompt_length(plan: Plan, known: int | None, papers: Papers | None = None) -> int:
    at, data = plan.frame.at, plan.circumstances.data
    if known is not None:
        return known
    if papers is not None:
        return _text_tokens([len(one.paper.title) + len(one.paper.abstract) for one in papers.train], at)
    return PROMPT_TOKENS[at] if data is None else _prompt_tokens(data, at)


@lru_cache
def _prompt_tokens(folder: Path, at: At) -> int:
    return _text_tokens([len(row.title) + len(row.abstract or "") for row in Slice.open(folder).rows(Split.TRAIN)], at)


def _text_tokens(lengths: Sequence[int], at: At) -> int:
    """Return the tokens of a prompt about a paper, by the characters of papers."""
    return ASKING_TOKENS[at] + round(sum(lengths) / CHARACTERS_PER_TOKEN[at] / max(1, len(lengths)))


def best_policy_lines(plan: Plan, source: Slice) -> list[str]:
    """Return warnings on classes that the optimal policy drops; none for SFT, or without the slice's baselines."""
    every = label_task_of(plan).alone if plan.entry.named_reward else ()
    report = read_report(source.folder) if every else None
    settings, lines = tuple(sorted(plan.reward_settings.items())), list[str]()
    for task in every:
        wanted = Baseline.BOTH if task.with_metadata else Baseline.TEXT
        targets = [] if report is None else [one for one in report.targets if one.target == task.name]
        for score in (one for target in targets for one in target.scores if one.baseline is wanted):
            table = tuple(tuple(score.confusion[gold][label] for gold in task.labels) for label in task.labels)
            found = _optimum(task, on_papers(plan).reward, settings, wanted, table)
            lines += [line if len(every) == 1 else f"{task.name}: {line}" for line in found]
    return lines


@cache
def _optimum(
    task: Task,
    reward: str,
    settings: tuple[tuple[str, float], ...],
    reader: Baseline,
    table: tuple[tuple[int, ...], ...],
) -> tuple[str, ...]:
    """Return the reward's optimum, computed once per process, as it takes seconds and runs often share it."""
    labels, counts = task.labels, np.array(table, dtype=np.float64)
    counts = counts[counts.sum(axis=1) > 0]
    totals = counts.sum(axis=1)
    posteriors = Posteriors.of(labels, counts / totals[:, None], totals)
    optimum = reward_optimum(posteriors, lambda: make_reward(reward, task, **dict(settings)))
    shares, recalls = map(optimum.policy.class_score, (ClassMetric.PREDICTED_SHARE, ClassMetric.RECALL))
    per_label = ", ".join(
        f"{label} {share:.2f} (recall {recall:.2f})"
        for label, share, recall in zip(labels, shares, recalls, strict=True)
    )
    return (
        f"the best policy under the reward {reward}, for a model that reads as well as {reader.value}:",
        f"  shares {per_label}; macro-F1 {optimum.policy.score(Metric.MACRO_F1):.3f}",
        *(f"  warning: {warning}" for warning in optimum.warnings()),
    )
