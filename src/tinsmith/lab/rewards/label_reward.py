"""Reward of an answer with one label or several: the mean of a reward for each subject of its task.

Each subject has a reward of REWARDS with a memory of its own, fed with what the answers say of that subject alone. So
the mean of two rewards that each pay for macro-F1 pays for the mean of the two macro-F1s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import msgspec

from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.labels.paper import Item
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.labels.task import Task
from tinsmith.lab.rewards.registry import make_reward
from tinsmith.lab.rewards.reward import Reward, RewardState
from tinsmith.lab.rewards.terms import Terms, rounded_sum
from tinsmith.lab.user_task.step_reward import Asked, Scored, StepReward


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTerms:
    """Parts of the reward of an answer about both subjects; a part that does not apply is 0."""

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
        """Return the names of the parts in their fixed order."""
        return tuple(field.name for field in fields(cls))

    @property
    def total(self) -> float:
        """Parse + contract + (disruption + novelty) / 2 + think, rounded to 12 decimals."""
        return rounded_sum(self.parse, self.contract, self.disruption / 2.0, self.novelty / 2.0, self.think)

    def alone(self, subject: Subject) -> float:
        """Return what the answer would earn if only this subject counted."""
        task = self.disruption if subject is Subject.DISRUPTION else self.novelty
        return rounded_sum(self.parse, self.contract, task, self.think)


LabelTerms = Terms | JointTerms


class LabelReward(StepReward):
    """Rewards of a task's subjects, as the one reward of an answer."""

    def __init__(self, task: Task, rewards: Sequence[Reward]) -> None:
        """Make it; `rewards`: one a subject, in the task's order, all with the same table."""
        self.task = task
        self.rewards = tuple(rewards)
        kind = Terms if len(self.rewards) == 1 else JointTerms
        self.terms = kind.names()  # pyright: ignore[reportAttributeAccessIssue]  # of its task

    def __call__(self, answers: Sequence[Asked]) -> list[Scored]:
        """Score answers by the state before this step, and let them enter it; terms are parts of the sum."""
        items, read = [one.item for one in answers], [one.replies[-1] for one in answers]
        scored = self.score(items, read)
        self.update(items, read)
        share = {subject.value: 1 / len(self.rewards) for subject in self.task.subjects}
        return [
            Scored(
                terms={name: getattr(terms, name) * share.get(name, 1.0) for name in self.terms},
                record=self.task.facts(item.golds, answer),
            )
            for terms, item, answer in zip(scored, items, read, strict=True)
        ]

    def score(self, items: Sequence[Item], answers: Sequence[Answer]) -> list[LabelTerms]:
        """Return each answer's terms. Pure: it uses the states as they were before this batch."""
        by_subject = [reward.score(*_alone(items, answers, place)) for place, reward in enumerate(self.rewards)]
        return [_together(terms) for terms in zip(*by_subject, strict=True)]

    def update(self, items: Sequence[Item], answers: Sequence[Answer]) -> None:
        """Let a batch enter the states; once a step, after `score`."""
        for place, reward in enumerate(self.rewards):
            reward.update(*_alone(items, answers, place))

    def state(self) -> object:
        """Return what `restore` needs to go on with the same bits, as plain JSON values."""
        return self.task.by_subject([msgspec.to_builtins(reward.state()) for reward in self.rewards])

    def restore(self, state: object) -> None:
        """Go on from a state."""
        for reward, saved in zip(self.rewards, self.task.one_a_subject(state), strict=True):
            reward.restore(RewardState.from_json(saved))

    def trace(self) -> Mapping[str, float]:
        """Return figures of each reward's state; of several subjects as `SUBJECT/...`."""
        return {
            f"{self.task.under('reward', subject)}/{key}".removeprefix("reward/"): value
            for subject, reward in zip(self.task.subjects, self.rewards, strict=True)
            for key, value in reward.trace().items()
        }


def make_label_reward(name: str, task: Task, **settings: object) -> LabelReward:
    """Return the reward that pays for every subject of a task by the same entry of REWARDS, at its start."""
    return LabelReward(task, [make_reward(name, one, **settings) for one in task.alone])


def _alone(items: Sequence[Item], answers: Sequence[Answer], place: int) -> tuple[list[str], list[Answer]]:
    return [item.golds[place] for item in items], [answer.alone(place) for answer in answers]


def _together(terms: tuple[Terms, ...]) -> LabelTerms:
    if len(terms) == 1:
        return terms[0]
    one, other = terms
    return JointTerms(parse=one.parse, contract=one.contract, disruption=one.task, novelty=other.task, think=one.think)
