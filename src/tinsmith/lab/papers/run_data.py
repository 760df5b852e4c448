"""Papers with labels as the data of a run: a slice, or papers that Python handed over; and what is watched."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from tinsmith.data.baselines.answers import BASELINE_ANSWERS
from tinsmith.data.slices.reader import Slice
from tinsmith.lab.course import Course, Tested
from tinsmith.lab.experiment.experiment import Plan
from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.labels.contracts import Answer, Subject
from tinsmith.lab.labels.labelled_papers import (
    LabelGradient,
    LabelledPapers,
    PaperRollout,
    Papers,
    information,
    tested_with_offset,
)
from tinsmith.lab.labels.rewards import make_label_reward, paid_alone
from tinsmith.lab.labels.task import Item
from tinsmith.lab.live.watch import Examinee, Judged, Watch
from tinsmith.lab.papers.compute_spent import LabelCourse
from tinsmith.lab.papers.estimate import best_policy_lines, minutes
from tinsmith.lab.papers.labels import on_papers, task_asked
from tinsmith.lab.papers.worlds import PaperBaseRecipe, nano_base, papers_of, slice_identity
from tinsmith.lab.rollouts import Failure
from tinsmith.lab.runs.files import BASELINES, Kind
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.runs.records import Score
from tinsmith.lab.schedule import subset
from tinsmith.lab.service.connect import Connection
from tinsmith.lab.settings import CommonSettings, Gradient, RlSettings, Selection, SftSettings
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.renderers.choose import renderer_for
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.evaluation import Evaluations
from tinsmith.stats.groups import Group, census
from tinsmith.stats.monitors.alarms import Alarm
from tinsmith.stats.monitors.collapse import CollapseMonitor, MonitorState, Signals
from tinsmith.stats.rates import Metric
from tinsmith.types.waits import Say

if TYPE_CHECKING:
    import tinker
    from transformers import PreTrainedTokenizerBase


DRAWS = 1000  # Resamples behind the interval of balanced accuracy; the test split's own are drawn in the report.


class _State(msgspec.Struct, frozen=True, kw_only=True):
    monitor: MonitorState
    rewards: tuple[float, ...]


@dataclass(slots=True)
class _OneWatch:
    """Collapse in what is answered about one subject."""

    monitor: CollapseMonitor
    rewards: list[float] = field(default_factory=list[float])  # Since the last evaluation.


@dataclass(slots=True)
class LabelWatch(Watch[Item, Answer]):
    """Watch whose collapse is looked for subject by subject."""

    study: LabelledPapers
    select_by: Selection
    _watches: tuple[_OneWatch, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._watches = tuple(_OneWatch(CollapseMonitor(one.labels)) for one in self.study.task.subjects)

    def saw(self, step: int, groups: Sequence[ScoredGroup[Item, Answer]]) -> list[Alarm]:
        """As of a Watch."""
        begun: list[Alarm] = []
        for place, (subject, watch) in enumerate(self._by_subject()):
            seen: list[Group] = []
            read: list[bool] = []
            for group in groups:
                gold = group.item.golds[place]
                said = [one.rollout.answer.alone(place).predicted for one in group.scored]
                paid = [paid_alone(cast(NamedTerms, one.terms), subject) for one in group.scored]
                seen.append(Group(gold=gold, rewards=tuple(paid), right=tuple(label == gold for label in said)))
                read += [label is not None for label in said]
            watch.rewards += [reward for group in seen for reward in group.rewards]
            begun += self._named(subject, watch.monitor.observe_answers(step, sum(read), len(read)))
            begun += self._named(subject, watch.monitor.observe_groups(step, census(subject.labels, seen)))
        return begun

    def judge(
        self, policy: Examinee, groups: Sequence[Sequence[PaperRollout | Failure[Item]]], metrics: Mapping[str, float]
    ) -> Judged:
        """As of a Watch; the labels' probabilities are looked at too."""
        del metrics
        task, evaluation = self.study.task, self.study.evaluations(groups)
        told = information(policy.trainer, self.study, [group[0].item for group in groups])
        begun: list[Alarm] = []
        for name, watch in self._by_subject():
            alone = evaluation.tasks[name]
            signals = Signals(
                step=policy.step,
                confusion=alone.confusion(),
                balanced_accuracy=alone.estimates(Bootstrap(draws=DRAWS))[Metric.BALANCED_ACCURACY.value].interval,
                label_information=told[name],
                train_reward=sum(watch.rewards) / len(watch.rewards) if watch.rewards else None,
            )
            watch.rewards = []
            begun += self._named(name, watch.monitor.observe_evaluation(signals))
        return Judged(
            score=score(evaluation, policy.step, self.select_by),
            alarms=begun,
            metrics={f"{task.under('eval', subject)}/label_mi": told[subject] for subject in task.subjects},
        )

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """As of a Watch."""
        found = [alarm for subject, watch in self._by_subject() for alarm in self._named(subject, watch.monitor.alarms)]
        return tuple(sorted(found, key=lambda alarm: alarm.step))

    def state(self) -> object:
        """As of a Watch."""
        states = [_State(monitor=one.monitor.state(), rewards=tuple(one.rewards)) for one in self._watches]
        return self.study.task.by_subject([msgspec.to_builtins(one) for one in states])

    def restore(self, state: object) -> None:
        """As of a Watch."""
        for watch, kept in zip(self._watches, self.study.task.one_a_subject(state), strict=True):
            found = msgspec.convert(kept, _State)
            watch.monitor.restore(found.monitor)
            watch.rewards = list(found.rewards)

    def _by_subject(self) -> list[tuple[Subject, _OneWatch]]:
        return list(zip(self.study.task.subjects, self._watches, strict=True))

    def _named(self, subject: Subject, alarms: Sequence[Alarm]) -> list[Alarm]:
        """Say which subject alarms are of, where there are several."""
        alone = len(self.study.task.subjects) == 1
        return [alarm if alone else alarm.of_task(subject.value) for alarm in alarms]


def score(evaluation: Evaluations, step: int, select_by: Selection) -> Score:
    """Return how good a checkpoint is; among equals the one with the larger smallest recall is better."""
    if select_by is Selection.LAST:
        value = float(step)
    else:
        value = evaluation.score(Metric(select_by.value))
    return Score(value, evaluation.score(Metric.MIN_CLASS_RECALL))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperData:
    """Papers of a run, and what the files of its folder say of them."""

    plan: Plan
    papers: Papers
    data: Mapping[str, object]  # Which papers these are, wherever they lie; `sha256` is over all of them.
    source: Slice | None  # Where the papers are from, with its baselines; None: they were handed over.
    base: Path | None = None  # A nano base that reads these papers well enough; None: the one of their own.

    def identity(self) -> Mapping[str, object]:
        """Return what decides results, beside the plan's own keys; `data` says which data these are."""
        return {"prompt_sha256": task_asked(self.plan).prompt_sha256, "data": dict(self.data)}

    def config(self) -> Mapping[str, object]:
        """Return what `config.json` says of it: `task`, `reward`, `data`."""
        asked, rewards = on_papers(self.plan), self.plan.reward_settings
        task = asked.asked
        return {
            "task": {
                "name": task.name,
                "labels": list(task.labels),
                "prompt": task.prompt,
                "contract": task.contract.name,
                "with_metadata": task.with_metadata,
                "shuffle_labels": asked.shuffle_labels,
                **({"prompt_lines": list(task.prompt_lines)} if task.prompt_lines else {}),
            },
            "reward": None if self.plan.frame.kind is Kind.SFT else {"name": asked.reward, **rewards},
            "data": {
                "fingerprint": self.data["sha256"],
                "train": len(self.papers.train),
                "validation": len(self.papers.validation),
                "test": len(self.papers.test),
            },
        }

    def circumstances(self) -> Mapping[str, object]:
        """Return where it was found."""
        where, source = self.plan.circumstances.data, self.source
        return {
            "data": None if where is None else str(where.absolute()),
            "data_folder": None if source is None else str(source.folder.absolute()),
        }

    def nano_base(self, say: Say) -> Path:
        """Return the small base. It reads papers and no labels: one serves a control with shuffled ones too.

        Nor does it read lines that a search put before them.
        """
        if self.base is not None:
            return self.base
        task = replace(task_asked(self.plan), prompt_lines=())
        return nano_base(PaperBaseRecipe(), task, self.papers, say)

    def models(self) -> Mapping[str, str]:
        """Return what an embedded server serves beside the model that is trained: nothing."""
        return {}

    def before(self) -> Sequence[str]:
        """Return what naming the commonest pair of labels would get, and what the reward makes optimal."""
        lines: list[str] = []
        if len(task_asked(self.plan).subjects) > 1:
            papers, pairs = len(self.papers.train), Counter(item.golds for item in self.papers.train)
            pair, count = max(pairs.items(), key=lambda each: (each[1], each[0]))
            has = f"the commonest pair, {' and '.join(pair)}, has {count / papers:.3f} of them"
            lines.append(f"{papers} training papers with both labels; {has}")
        return lines if self.source is None else lines + best_policy_lines(self.plan, self.source)

    def begin(self, folder: RunFolder) -> None:
        """Copy the slice's baselines, and what they answer."""
        for name in (BASELINE_ANSWERS, BASELINES):
            if self.source is not None and (file := self.source.folder / name).exists():
                fresh = folder.path / f".{name}.new"
                shutil.copyfile(file, fresh)
                os.replace(fresh, folder.path / name)

    def subject(self, tokenizer: PreTrainedTokenizerBase) -> LabelledPapers:
        """Return the papers as they are asked about, and what answers earn."""
        plan, task = self.plan, task_asked(self.plan)
        named = plan.entry.named_reward
        reward = make_label_reward(on_papers(plan).reward, task, **plan.reward_settings) if named else None
        renderer = renderer_for(tokenizer)
        return LabelledPapers(task=task, papers=self.papers, renderer=renderer, tokenizer=tokenizer, reward=reward)

    def course(self, tokenizer: PreTrainedTokenizerBase, folder: RunFolder, connection: Connection) -> LabelCourse:
        """Return how it is trained on."""
        del folder, connection
        return label_course(self.subject(tokenizer), self.plan.settings)

    def minutes(self) -> float | None:
        """Return how long the run takes on two cores; None: nothing is known of the model."""
        return minutes(self.plan)


def data_of(plan: Plan, source: Slice) -> PaperData:
    """Return a slice's papers, labelled for the plan's task."""
    return PaperData(
        plan=plan,
        papers=papers_of(source, task_asked(plan), shuffle_seed=shuffle_seed(plan)),
        data=slice_identity(source),
        source=source,
    )


def shuffle_seed(plan: Plan) -> int | None:
    """Return the seed to shuffle a plan's training labels with; None: they stay where they are."""
    return plan.settings.seed if on_papers(plan).shuffle_labels else None


def label_course(study: LabelledPapers, settings: CommonSettings) -> LabelCourse:
    """Return how a run trains on papers, and tests the chosen policy and the last one."""

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
        also_asked=len(study.choices()) * (len(validation) + len(test)) if offset else 0,
    )
