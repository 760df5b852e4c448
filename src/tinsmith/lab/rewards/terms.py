"""What one answer earns, as named terms, and what a reward is: a table, or a table that reacts.

A reward is a sum parse + contract + task + think. Only the task term looks at the label. The failure
to run a rollout at all is no answer and has no reward; it never comes here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.labels.answers import Answer
from tinsmith.lab.labels.subjects import Subject
from tinsmith.lab.rewards.state import RewardState, wrong_state
from tinsmith.types.errors import DataError

_DECIMALS: Final = 12
"""Totals are rounded to this: 0.05 - 0.60 is -0.55, and equal rewards are equal bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The parts of one answer's reward; a part that does not apply is 0."""

    parse: float = 0.0
    """The text is not JSON."""
    contract: float = 0.0
    """It is JSON: within the contract, or not."""
    task: float = 0.0
    """The label, where there is a valid one."""
    think: float = 0.0
    """A think tag stands in the text."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the parts in their fixed order."""
        return tuple(field.name for field in fields(cls))

    @property
    def total(self) -> float:
        """The sum, rounded to 12 decimals."""
        return rounded_sum(self.parse, self.contract, self.task, self.think)

    def alone(self, subject: Subject) -> float:
        """Return the total: no other subject counts."""
        del subject
        return self.total


def rounded_sum(*terms: float) -> float:
    """Return the exact sum, rounded to 12 decimals; -0.0 becomes 0.0."""
    return round(math.fsum(terms), _DECIMALS) + 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardTable:
    """The constants of a reward."""

    unparsed: float
    """parse: the text is not JSON."""
    invalid: float
    """contract: JSON outside the contract."""
    valid: float
    """contract: within it."""
    correct: float
    """task, times the class weight of the gold label."""
    wrong: float
    """task; no class weight."""
    think: float
    """think, on top of whatever else."""


SOFT: Final = RewardTable(unparsed=-1.0, invalid=-0.5, valid=0.25, correct=0.5, wrong=-0.25, think=-1.0)
"""Totals +0.75, 0, -0.5, -1, and -1 for a think tag. The totals are the source notes'; how they split into
terms is our choice."""
STRONG: Final = RewardTable(unparsed=-1.0, invalid=-0.75, valid=0.05, correct=1.0, wrong=-0.6, think=-1.0)
"""Totals +1.05, -0.55, -0.75, -1. Exp5's +3.05 fixes the split: 0.05 + 3 * 1.0."""


class Reward(Protocol):
    """What a batch of answers earns."""

    @property
    def name(self) -> str:
        """Its name in REWARDS."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in their fixed order."""
        ...

    def score(self, golds: Sequence[str], answers: Sequence[Answer]) -> list[Terms]:
        """Return each answer's terms. Pure: it uses the state as it was before this batch.

        Raises:
            DataError: a gold label or an answer's is none of the labels, or the lengths differ.
        """
        ...

    def update(self, golds: Sequence[str], answers: Sequence[Answer]) -> None:
        """Let a batch enter the state; once a step, after `score`. An empty batch changes nothing."""
        ...

    def state(self) -> RewardState:
        """Return what `restore` needs to go on with the same bits."""
        ...

    def restore(self, state: RewardState) -> None:
        """Go on from a state.

        Raises:
            CheckpointError: it belongs to another reward, other labels, or another shape.
        """
        ...

    def trace(self) -> Mapping[str, float]:
        """Return what is worth logging after a step, as metrics `reward/...`, in a fixed order."""
        ...

    def per_label(self, state: RewardState | None = None) -> NDArray[np.float64]:
        """Return [K, K]: the total of a valid answer k (column) about a paper of label y (row).

        In the given state, or as it is now. Agrees with `score` bit for bit.
        """
        ...


def indices(labels: Sequence[str], golds: Sequence[str], answers: Sequence[Answer]) -> list[tuple[int, int | None]]:
    """Return (truth, prediction) as positions in the labels; None for an invalid answer.

    Raises:
        DataError: see Reward.score.
    """
    if len(golds) != len(answers):
        raise DataError("every answer needs a gold label", field="golds", value=len(golds), allowed=str(len(answers)))
    position = {label: at for at, label in enumerate(labels)}
    found: list[tuple[int, int | None]] = []
    for gold, answer in zip(golds, answers, strict=True):
        for label in (gold, answer.label):
            if label is not None and label not in position:
                raise DataError("no such label in this task", field="label", value=label, allowed=", ".join(labels))
        found.append((position[gold], None if answer.label is None else position[answer.label]))
    return found


def terms_of(table: RewardTable, answer: Answer, task: float) -> Terms:
    """Return an answer's terms; `task` counts only where the answer has a valid label."""
    contract = 0.0
    if answer.parse_ok:
        contract = table.valid if answer.payload_ok else table.invalid
    return Terms(
        parse=0.0 if answer.parse_ok else table.unparsed,
        contract=contract,
        task=task if answer.payload_ok else 0.0,
        think=table.think if answer.has_think else 0.0,
    )


class TableReward:
    """A reward that looks at one answer at a time and remembers nothing."""

    def __init__(self, name: str, labels: tuple[str, ...], table: RewardTable, weights: tuple[float, ...]) -> None:
        """Make it; `weights`: one a label, on the *correct* task term of papers of that label."""
        self.name = name
        self.labels = labels
        self.table = table
        self.weights = weights

    def score(self, golds: Sequence[str], answers: Sequence[Answer]) -> list[Terms]:
        """See Reward."""
        pairs = indices(self.labels, golds, answers)
        return [
            terms_of(self.table, answer, 0.0 if k is None else self._task(y, k))
            for (y, k), answer in zip(pairs, answers, strict=True)
        ]

    def update(self, golds: Sequence[str], answers: Sequence[Answer]) -> None:
        """Remember nothing."""

    def state(self) -> RewardState:
        """See Reward."""
        return RewardState(reward=self.name, labels=self.labels)

    def restore(self, state: RewardState) -> None:
        """See Reward."""
        if (state.reward, state.labels) != (self.name, self.labels):
            raise wrong_state(self.name, self.labels, state)

    def trace(self) -> Mapping[str, float]:
        """See Reward."""
        return {}

    def per_label(self, state: RewardState | None = None) -> NDArray[np.float64]:
        """See Reward."""
        if state is not None:
            self.restore(state)
        return total_matrix(self.table, [[self._task(y, k) for k in self._range()] for y in self._range()])

    def _task(self, y: int, k: int) -> float:
        return self.table.correct * self.weights[y] if y == k else self.table.wrong

    def _range(self) -> range:
        return range(len(self.labels))


def total_matrix(table: RewardTable, task_KK: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return [K, K]: task terms as totals of valid answers without a think tag."""
    return np.array([[rounded_sum(table.valid, task) for task in row] for row in task_KK])
