"""What a joint answer earns: the terms every reward has, and the mean of two rewards, one for each label.

Each task has a reward of REWARDS with a memory of its own, fed with what the answers say of that task alone. So the
mean of two rewards that each pay for macro-F1 pays for the mean of the two macro-F1s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from tinsmith.tasks.answers import Answer, JointAnswer
from tinsmith.tasks.joint import JointItem, JointTask
from tinsmith.tasks.reward_registry import make_reward
from tinsmith.tasks.reward_state import RewardState
from tinsmith.tasks.rewards import Reward, rounded_sum
from tinsmith.tasks.subjects import Subject
from tinsmith.types.errors import CheckpointError


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTerms:
    """The parts of one joint answer's reward; a part that does not apply is 0."""

    parse: float = 0.0
    """The text is not JSON."""
    contract: float = 0.0
    """It is JSON: within the contract, or not."""
    disruption: float = 0.0
    """This label, where the answer is valid; half of it is in the total."""
    novelty: float = 0.0
    """This label, where the answer is valid; half of it is in the total."""
    think: float = 0.0
    """A think tag stands in the text."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the parts in their fixed order."""
        return tuple(field.name for field in fields(cls))

    @property
    def total(self) -> float:
        """Parse + contract + (disruption + novelty) / 2 + think, rounded to 12 decimals."""
        labels = (self.disruption / 2.0, self.novelty / 2.0)
        return rounded_sum(self.parse, self.contract, *labels, self.think)

    def alone(self, subject: Subject) -> float:
        """Return what the answer would earn if only this subject counted."""
        task = self.disruption if subject is Subject.DISRUPTION else self.novelty
        return rounded_sum(self.parse, self.contract, task, self.think)


class JointReward:
    """A reward for each subject, and their terms together."""

    def __init__(self, task: JointTask, rewards: Sequence[Reward]) -> None:
        """Make it; `rewards`: one a subject, in the task's order, all with the same table."""
        self.task = task
        self.rewards = tuple(rewards)

    def score(self, items: Sequence[JointItem], answers: Sequence[JointAnswer]) -> list[JointTerms]:
        """Return each answer's terms. Pure: it uses the states as they were before this batch.

        Raises:
            DataError: a label is none of its subject's, or the lengths differ.
        """
        by_task = [
            reward.score(*_alone(items, answers, place))
            for place, reward in enumerate(self.rewards)
        ]
        return [
            JointTerms(
                parse=one.parse,
                contract=one.contract,
                disruption=one.task,
                novelty=other.task,
                think=one.think,
            )
            for one, other in zip(*by_task, strict=True)
        ]

    def update(self, items: Sequence[JointItem], answers: Sequence[JointAnswer]) -> None:
        """Let a batch enter the states; once a step, after `score`."""
        for place, reward in enumerate(self.rewards):
            reward.update(*_alone(items, answers, place))

    def state(self) -> object:
        """Return what `restore` needs to go on with the same bits, as plain JSON values by subject."""
        return {
            subject.value: reward.state().to_json()
            for subject, reward in zip(self.task.subjects, self.rewards, strict=True)
        }

    def restore(self, state: object) -> None:
        """Go on from a state.

        Raises:
            CheckpointError: it is none, or belongs to another reward.
        """
        names = [subject.value for subject in self.task.subjects]
        if not isinstance(state, Mapping) or set(state) != set(names):
            raise CheckpointError(
                "this is not the state of a joint reward", field="reward", allowed=", ".join(names)
            )
        for name, reward in zip(names, self.rewards, strict=True):
            reward.restore(RewardState.from_json(state[name]))

    def trace(self) -> Mapping[str, float]:
        """Return what each reward tells of its state, as `reward/SUBJECT/...`."""
        return {
            f"reward/{subject}/{key.removeprefix('reward/')}": value
            for subject, reward in zip(self.task.subjects, self.rewards, strict=True)
            for key, value in reward.trace().items()
        }


def make_joint_reward(name: str, task: JointTask, **settings: object) -> JointReward:
    """Return the joint reward that pays both tasks by the same entry of REWARDS, at its start.

    Raises:
        ConfigError: an unknown reward or setting, or a value that is not allowed.
    """
    return JointReward(task, [make_reward(name, one, **settings) for one in task.tasks])


def _alone(
    items: Sequence[JointItem], answers: Sequence[JointAnswer], place: int
) -> tuple[list[str], list[Answer]]:
    return [item.golds[place] for item in items], [answer.alone(place) for answer in answers]
