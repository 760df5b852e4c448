"""What is watched while a run trains: collapse, and which checkpoint is the best so far."""

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
from tinsmith.training.grouping import ScoredGroup
from tinsmith.training.settings import Selection

DRAWS = 1000
"""Resamples behind the interval of balanced accuracy; the test split's own are drawn in the report."""


@dataclass(frozen=True, slots=True)
class Score:
    """How good a policy was on the validation split; compared in this order."""

    value: float
    min_class_recall: float


@dataclass(frozen=True, slots=True)
class BestStep:
    """The step whose policy was the best so far."""

    step: int
    score: Score
    sampler_path: str = ""
    """Where its weights were saved to sample from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """All that a resumed run must know."""

    monitor: MonitorState
    best: BestStep | None
    rewards: tuple[float, ...]


@dataclass(slots=True)
class Watch:
    """Collapse and selection of one run; fed in the order of the steps."""

    labels: tuple[str, ...]
    select_by: Selection
    monitor: CollapseMonitor = field(init=False)
    best: BestStep | None = None
    _rewards: list[float] = field(default_factory=list[float])

    def __post_init__(self) -> None:
        self.monitor = CollapseMonitor(self.labels)

    def state(self) -> object:
        """Return it as plain JSON values."""
        state = WatchState(
            monitor=self.monitor.state(), best=self.best, rewards=tuple(self._rewards)
        )
        return msgspec.to_builtins(state)

    def restore(self, value: object) -> None:
        """Go on from what `state` returned."""
        state = msgspec.convert(value, WatchState)
        self.monitor.restore(state.monitor)
        self.best = state.best
        self._rewards = list(state.rewards)

    def saw_groups(self, step: int, groups: Sequence[ScoredGroup]) -> tuple[Alarm, ...]:
        """Take a training step's groups in; return the alarms that begin with it."""
        seen = [
            Group(
                gold=group.gold,
                rewards=tuple(one.terms.total for one in group.scored),
                right=tuple(one.rollout.answer.predicted == group.gold for one in group.scored),
            )
            for group in groups
        ]
        self._rewards += [reward for group in seen for reward in group.rewards]
        return self.monitor.observe_groups(step, census(self.labels, seen))

    def saw_evaluation(
        self, step: int, evaluation: Evaluation, label_information: float
    ) -> tuple[Alarm, ...]:
        """Take an evaluation on the validation split in; return the alarms that begin with it."""
        estimates = evaluation.estimates(Bootstrap(draws=DRAWS))
        reward = sum(self._rewards) / len(self._rewards) if self._rewards else None
        self._rewards.clear()
        self._choose(step, evaluation)
        return self.monitor.observe_evaluation(
            Signals(
                step=step,
                confusion=evaluation.confusion(),
                balanced_accuracy=estimates[Metric.BALANCED_ACCURACY.value].interval,
                label_information=label_information,
                train_reward=reward,
            )
        )

    def _choose(self, step: int, evaluation: Evaluation) -> None:
        confusion = evaluation.confusion()
        if self.select_by is Selection.LAST:
            value = float(step)
        else:
            value = confusion.score(Metric(self.select_by.value))
        score = Score(value, confusion.score(Metric.MIN_CLASS_RECALL))
        if self.best is None or (score.value, score.min_class_recall) > (
            self.best.score.value,
            self.best.score.min_class_recall,
        ):
            self.best = BestStep(step, score)
