"""What is watched while a run learns two labels in one answer: collapse in each task, and how good a checkpoint is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from tinsmith.analysis.alarms import Alarm
from tinsmith.analysis.groups import Group
from tinsmith.analysis.joint import JointEvaluation
from tinsmith.analysis.rates import Metric
from tinsmith.tasks.answers import JointAnswer
from tinsmith.tasks.joint import JointItem, JointTask
from tinsmith.tasks.joint_rewards import JointTerms
from tinsmith.training.course import Score
from tinsmith.training.grouping import ScoredGroup
from tinsmith.training.settings import Selection
from tinsmith.training.watch import Watch


@dataclass(slots=True)
class JointWatch:
    """A watch for each task; fed in the order of the steps."""

    task: JointTask
    watches: dict[str, Watch] = field(init=False)

    def __post_init__(self) -> None:
        self.watches = {subject.value: Watch(subject.labels) for subject in self.task.subjects}

    def saw_groups(
        self, step: int, groups: Sequence[ScoredGroup[JointItem, JointAnswer]]
    ) -> list[Alarm]:
        """Take a training step's groups in; return the alarms that begin with it."""
        begun: list[Alarm] = []
        for place, subject in enumerate(self.task.subjects):
            seen = [
                Group(
                    gold=group.item.golds[place],
                    rewards=tuple(
                        cast(JointTerms, one.terms).alone(subject) for one in group.scored
                    ),
                    right=tuple(
                        one.rollout.answer.alone(place).predicted == group.item.golds[place]
                        for one in group.scored
                    ),
                )
                for group in groups
            ]
            read = [
                one.rollout.answer.alone(place).predicted is not None
                for group in groups
                for one in group.scored
            ]
            found = self.watches[subject.value].saw(step, seen, read)
            begun += [alarm.of_task(subject.value) for alarm in found]
        return begun

    def saw_evaluation(
        self, step: int, evaluation: JointEvaluation, label_information: Mapping[str, float]
    ) -> list[Alarm]:
        """Take an evaluation on the validation split in; return the alarms that begin with it."""
        return [
            alarm.of_task(name)
            for name, watch in self.watches.items()
            for alarm in watch.saw_evaluation(step, evaluation.tasks[name], label_information[name])
        ]

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Every alarm raised so far, oldest first."""
        found = [
            alarm.of_task(name)
            for name, watch in self.watches.items()
            for alarm in watch.monitor.alarms
        ]
        return tuple(sorted(found, key=lambda alarm: alarm.step))

    def state(self) -> object:
        """Return it as plain JSON values."""
        return {name: watch.state() for name, watch in self.watches.items()}

    def restore(self, value: object) -> None:
        """Go on from what `state` returned."""
        kept = cast(Mapping[str, object], value)
        for name, watch in self.watches.items():
            watch.restore(kept[name])


def joint_score(evaluation: JointEvaluation, step: int, select_by: Selection) -> Score:
    """Return how good a checkpoint is; among equals the one with the larger smallest recall is better."""
    if select_by is Selection.LAST:
        value = float(step)
    else:
        value = evaluation.score(Metric(select_by.value))
    return Score(value, evaluation.score(Metric.MIN_CLASS_RECALL))
