"""Rewards that react: they keep a moving average of the confusion and pay by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.labels.answers import Answer
from tinsmith.lab.rewards.objectives import Matrix, Objective, View
from tinsmith.lab.rewards.share_table import ShareTable
from tinsmith.lab.rewards.state import RewardState, wrong_state
from tinsmith.lab.rewards.terms import Reward, RewardTable, Terms, indices, terms_of, total_matrix
from tinsmith.types.errors import CheckpointError, ConfigError, DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """How the confusion is remembered, and where it starts.

    Raises:
        ConfigError: the window is below one answer.
    """

    prior: tuple[float, ...]
    """pi: the share of papers of each label."""
    first_shares: tuple[float, ...]
    """The share of each label among the answers at step 0."""
    window: float = 512.0
    """A batch of N answers enters with weight N / window, at most 1."""

    def __post_init__(self) -> None:
        if not 1.0 <= self.window < float("inf"):
            raise ConfigError(
                "the window must be a number of answers",
                field="window",
                value=self.window,
                allowed=">= 1 and finite; 512 or more, or the reward is noise",
            )


class SetReward:
    """A reward whose task term comes from an objective over the confusion of the answers so far.

    Within a batch the state stands still. An invalid answer counts as an answer that says nothing;
    it earns the table's `invalid` or `unparsed` and no task term.
    """

    def __init__(
        self, name: str, labels: tuple[str, ...], objective: Objective, memory: Memory, table: RewardTable
    ) -> None:
        """Make it at its start; of `table` only the constants outside the task term are used."""
        self.name = name
        self.labels = labels
        self.objective = objective
        self.memory = memory
        self.table = table
        start = ShareTable.independent(memory.prior, memory.first_shares)
        self._state = RewardState(
            reward=name, labels=labels, confusion=start.cells, duals=objective.first_duals(len(labels))
        )

    def score(self, golds: Sequence[str], answers: Sequence[Answer]) -> list[Terms]:
        """See Reward."""
        pairs = indices(self.labels, golds, answers)
        task_KK = self._task_terms(self._state)
        return [
            terms_of(self.table, answer, 0.0 if k is None else task_KK[y][k])
            for (y, k), answer in zip(pairs, answers, strict=True)
        ]

    def update(self, golds: Sequence[str], answers: Sequence[Answer]) -> None:
        """See Reward: the confusion first, then the duals from it."""
        pairs = indices(self.labels, golds, answers)
        batch = ShareTable.counted(len(self.labels), pairs)
        if batch is not None:
            self._enter(batch, len(pairs))

    def _enter(self, batch: ShareTable, count: int) -> None:
        before = self._state
        weight = min(1.0, count / self.memory.window)
        shares = ShareTable(before.confusion).mixed_with(batch, weight)
        duals = self.objective.next_duals(View(shares, self.memory.prior, before.duals))
        self._state = replace(before, batches=before.batches + 1, confusion=shares.cells, duals=duals)

    def state(self) -> RewardState:
        """See Reward."""
        return self._state

    def restore(self, state: RewardState) -> None:
        """See Reward."""
        self._check(state)
        self._state = state

    def trace(self) -> Mapping[str, float]:
        """See Reward. Recall is NaN-free: a label without papers so far is left out."""
        shares = ShareTable(self._state.confusion)
        totals = self.per_label()
        traced = {"reward/ema_macro_f1": shares.macro_f1()}
        for at, label in enumerate(self.labels):
            if (recall := shares.recall(at)) is not None:
                traced[f"reward/ema_recall/{label}"] = recall
            traced[f"reward/ema_share/{label}"] = shares.said(at)
            traced[f"reward/correct/{label}"] = float(totals[at, at])
            traced[f"reward/wrong/{label}"] = float(totals[at - 1, at])
            if self._state.duals:
                traced[f"reward/dual/{label}"] = self._state.duals[at]
        return traced

    def per_label(self, state: RewardState | None = None) -> NDArray[np.float64]:
        """See Reward."""
        if state is not None:
            self._check(state)
        return total_matrix(self.table, self._task_terms(state or self._state))

    def _task_terms(self, state: RewardState) -> Matrix:
        view = View(ShareTable(state.confusion), self.memory.prior, state.duals)
        return self.objective.task_terms(view)

    def _check(self, state: RewardState) -> None:
        if (state.reward, state.labels) != (self.name, self.labels):
            raise wrong_state(self.name, self.labels, state)
        shape = [len(row) for row in state.confusion]
        size = len(self.labels)
        if shape != [size + 1] * size or len(state.duals) != len(self._state.duals):
            raise CheckpointError(
                "a reward's state has another shape",
                field="confusion",
                value=shape,
                allowed=f"{size} rows of {size + 1} shares, {len(self._state.duals)} duals",
            )


def per_label_at(reward: Reward, confusion: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix r[y, k] that a reward would pay if its confusion were this one.

    For the analysis of what a reward makes optimal: `lambda shares: per_label_at(reward, shares)`.
    A reward that does not react gives the same matrix for all; duals stay as they are.

    Args:
        reward: any reward over K labels.
        confusion: shares [K, K], rows the truth, columns the predictions; or [K, K + 1] with the
            invalid answers last.

    Raises:
        DataError: another shape, or a share that is negative or not finite.
    """
    size = len(reward.labels)
    table = np.asarray(confusion, np.float64)
    if table.shape == (size, size):
        table = np.hstack([table, np.zeros((size, 1))])
    if table.shape != (size, size + 1) or not np.all((table >= 0) & np.isfinite(table)):
        raise DataError(
            "a confusion has one row and one column a label",
            field="confusion",
            value=np.asarray(confusion).shape,
            allowed=f"[{size}, {size}] or [{size}, {size + 1}], shares >= 0",
        )
    state = reward.state()
    if not state.confusion:
        return reward.per_label(state)
    return reward.per_label(replace(state, confusion=tuple(map(tuple, table.tolist()))))


def followed(reward: Reward) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return what a reward pays as a function of the confusion shares [K, K]; duals take one step a call.

    For following a policy that the reward itself improves; make a fresh one for every ascent.
    """
    if not isinstance(reward, SetReward) or not reward.state().duals:
        return lambda shares: per_label_at(reward, shares)
    state = reward.state()

    def stepping(shares: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal state
        cells = tuple((*row, 0.0) for row in shares.tolist())
        view = View(ShareTable(cells), reward.memory.prior, state.duals)
        state = replace(state, confusion=cells, duals=reward.objective.next_duals(view))
        return reward.per_label(state)

    return stepping
