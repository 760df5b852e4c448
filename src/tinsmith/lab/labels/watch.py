"""What is watched while a run learns labels: collapse, and how good a checkpoint is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec

from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.labels.contracts import Answer, Subject
from tinsmith.lab.labels.labelled_papers import LabelledPapers, PaperRollout
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.rewards import paid_alone
from tinsmith.lab.labels.scores import information
from tinsmith.lab.live.watch import Examinee, Judged, Score, Watch
from tinsmith.lab.rollouts import Failure
from tinsmith.lab.settings import Selection
from tinsmith.lab.user_task.step_reward import NamedTerms
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.evaluation import Evaluations
from tinsmith.stats.groups import Group, census
from tinsmith.stats.monitors.alarms import Alarm
from tinsmith.stats.monitors.collapse import CollapseMonitor, MonitorState, Signals
from tinsmith.stats.rates import Metric

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
    """See Watch; its methods are described there. Collapse is watched subject by subject."""

    study: LabelledPapers
    select_by: Selection
    _watches: tuple[_OneWatch, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._watches = tuple(_OneWatch(CollapseMonitor(one.labels)) for one in self.study.task.subjects)

    def saw(self, step: int, groups: Sequence[ScoredGroup[Item, Answer]]) -> list[Alarm]:
        """See Watch."""
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
        """See Watch; it looks at the labels' probabilities too."""
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
        """See Watch."""
        found = [alarm for subject, watch in self._by_subject() for alarm in self._named(subject, watch.monitor.alarms)]
        return tuple(sorted(found, key=lambda alarm: alarm.step))

    def state(self) -> object:
        """See Watch."""
        states = [_State(monitor=one.monitor.state(), rewards=tuple(one.rewards)) for one in self._watches]
        return self.study.task.by_subject([msgspec.to_builtins(one) for one in states])

    def restore(self, state: object) -> None:
        """See Watch."""
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
