"""What is watched while a run learns labels: collapse, and how good a checkpoint is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from tinsmith.analysis.alarms import Alarm
from tinsmith.analysis.collapse import CollapseMonitor
from tinsmith.analysis.estimates import Bootstrap
from tinsmith.analysis.evaluation import Evaluation
from tinsmith.analysis.groups import Group, census
from tinsmith.analysis.monitor_state import MonitorState, Signals
from tinsmith.analysis.rates import Metric
from tinsmith.tasks.contracts import Answer
from tinsmith.tasks.paper import Item
from tinsmith.training.course import Score
from tinsmith.training.grouping import ScoredGroup
from tinsmith.training.settings import Selection

DRAWS = 1000
"""Resamples behind the interval of balanced accuracy; the test split's own are drawn in the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """All that a resumed run must know."""

    monitor: MonitorState
    rewards: tuple[float, ...]


@dataclass(slots=True)
class Watch:
    """Collapse in one run; fed in the order of the steps."""

    labels: tuple[str, ...]
    monitor: CollapseMonitor = field(init=False)
    _rewards: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        self.monitor = CollapseMonitor(self.labels)

    def state(self) -> object:
        """Return it as plain JSON values."""
        state = WatchState(monitor=self.monitor.state(), rewards=tuple(self._rewards))
        return msgspec.to_builtins(state)

    def restore(self, value: object) -> None:
        """Go on from what `state` returned."""
        state = msgspec.convert(value, WatchState)
        self.monitor.restore(state.monitor)
        self._rewards = list(state.rewards)

    def saw_groups(
        self, step: int, groups: Sequence[ScoredGroup[Item, Answer]]
    ) -> tuple[Alarm, ...]:
        """Take a training step's groups in; return the alarms that begin with it."""
        seen = [
            Group(
                gold=group.item.gold,
                rewards=tuple(one.terms.total for one in group.scored),
                right=tuple(
                    one.rollout.answer.predicted == group.item.gold for one in group.scored
                ),
            )
            for group in groups
        ]
        read = [
            one.rollout.answer.predicted is not None for group in groups for one in group.scored
        ]
        return self.saw(step, seen, read)

    def saw(self, step: int, seen: Sequence[Group], read: Sequence[bool]) -> tuple[Alarm, ...]:
        """Take a training step's groups in, and which of its answers could be read; return the alarms that begin."""
        self._rewards += [reward for group in seen for reward in group.rewards]
        begun = self.monitor.observe_answers(step, sum(read), len(read))
        return (*begun, *self.monitor.observe_groups(step, census(self.labels, seen)))

    def saw_evaluation(
        self, step: int, evaluation: Evaluation, label_information: float
    ) -> tuple[Alarm, ...]:
        """Take an evaluation on the validation split in; return the alarms that begin with it."""
        estimates = evaluation.estimates(Bootstrap(draws=DRAWS))
        reward = sum(self._rewards) / len(self._rewards) if self._rewards else None
        self._rewards.clear()
        return self.monitor.observe_evaluation(
            Signals(
                step=step,
                confusion=evaluation.confusion(),
                balanced_accuracy=estimates[Metric.BALANCED_ACCURACY.value].interval,
                label_information=label_information,
                train_reward=reward,
            )
        )


def score(evaluation: Evaluation, step: int, select_by: Selection) -> Score:
    """Return how good a checkpoint is; among equals the one with the larger smallest recall is better."""
    confusion = evaluation.confusion()
    if select_by is Selection.LAST:
        value = float(step)
    else:
        value = confusion.score(Metric(select_by.value))
    return Score(value, confusion.score(Metric.MIN_CLASS_RECALL))
