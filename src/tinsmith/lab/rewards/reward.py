"""A reward over K labels: a table of constants, or one whose task term reacts to the answers so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.labels.contracts import Answer
from tinsmith.lab.rewards.objectives import Cells, Matrix, Objective, ShareTable, View
from tinsmith.lab.rewards.terms import RewardTable, Terms, rounded_sum
from tinsmith.types.errors import CheckpointError, ConfigError, DataError


class RewardState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that a reward remembers; a value that JSON keeps to the last bit."""

    reward: str
    labels: tuple[str, ...]
    batches: int
    """Updates so far."""
    confusion: Cells
    """Cells of the share table; empty for a reward that does not react."""
    duals: tuple[float, ...]
    """One per label, for a reward that has them."""

    @classmethod
    def from_json(cls, value: object) -> RewardState:
        """Read plain JSON values."""
        try:
            state = msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise CheckpointError(f"this is not the state of a reward: {error}") from None
        if not np.isfinite([*(share for row in state.confusion for share in row), *state.duals]).all():
            raise CheckpointError("this is not the state of a reward: a number that is not finite")
        return state


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory of the confusion, and its start."""

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


_NONE: Final = Memory(prior=(), first_shares=())


class Reward:
    """Reward of a batch of answers about one label.

    Within a batch the state stands still. An invalid answer counts as an answer that says nothing;
    it earns the table's `invalid` or `unparsed` and no task term.
    """

    def __init__(
        self,
        name: str,
        labels: tuple[str, ...],
        table: RewardTable,
        *,
        weights: tuple[float, ...] = (),
        objective: Objective | None = None,
        memory: Memory = _NONE,
    ) -> None:
        """Make it at its start.

        Args:
            name: its name in REWARDS.
            labels: the labels in their fixed order.
            table: constants; with an objective those outside the task term alone.
            weights: factors on the correct task term of papers of each label, without an objective.
            objective: where the task term comes from; None: from the table, and nothing is remembered.
            memory: how an objective's confusion is remembered.
        """
        self.name, self.labels, self.table = name, labels, table
        self.weights, self.objective, self.memory = weights, objective, memory
        start = ShareTable.independent(memory.prior, memory.first_shares)
        duals = () if objective is None else objective.first_duals(len(labels))
        self._state = RewardState(reward=name, labels=labels, batches=0, confusion=start.cells, duals=duals)

    def score(self, golds: Sequence[str], answers: Sequence[Answer]) -> list[Terms]:
        """Return each answer's terms. Pure: it uses the state as it was before this batch."""
        task = self._task_terms(self._state)
        return [
            self.table.terms(answer, 0.0 if k is None else task[y][k])
            for (y, k), answer in zip(self._indices(golds, answers), answers, strict=True)
        ]

    def update(self, golds: Sequence[str], answers: Sequence[Answer]) -> None:
        """Let a batch enter the state, once a step, after `score`: the confusion first, then the duals from it."""
        pairs = self._indices(golds, answers)
        batch = ShareTable.counted(len(self.labels), pairs)
        if batch is None or self.objective is None:
            return
        before = self._state
        shares = ShareTable(before.confusion).mixed_with(batch, min(1.0, len(pairs) / self.memory.window))
        self._state = msgspec.structs.replace(
            before,
            batches=before.batches + 1,
            confusion=shares.cells,
            duals=self.objective.next_duals(View(shares, self.memory.prior, before.duals)),
        )

    def state(self) -> RewardState:
        """Return what `restore` needs to go on with the same bits."""
        return self._state

    def restore(self, state: RewardState) -> None:
        """Go on from a state."""
        if (state.reward, state.labels) != (self.name, self.labels):
            raise CheckpointError(
                "this state belongs to another reward",
                field="reward",
                value=f"{state.reward} over {', '.join(state.labels)}",
                allowed=f"{self.name} over {', '.join(self.labels)}",
            )
        shape = [[len(row) for row in one.confusion] for one in (state, self._state)]
        if shape[0] != shape[1] or len(state.duals) != len(self._state.duals):
            raise CheckpointError("a reward's state has another shape", field="confusion", value=shape[0])
        self._state = state

    def trace(self) -> Mapping[str, float]:
        """Return figures of the state; a label without papers so far has no recall."""
        if self.objective is None:
            return {}
        shares, totals = ShareTable(self._state.confusion), self.per_label()
        traced = {"ema_macro_f1": shares.macro_f1()}
        for at, label in enumerate(self.labels):
            if (recall := shares.recall(at)) is not None:
                traced[f"ema_recall/{label}"] = recall
            traced[f"ema_share/{label}"] = shares.said(at)
            traced[f"correct/{label}"] = float(totals[at, at])
            traced[f"wrong/{label}"] = float(totals[at - 1, at])
            if self._state.duals:
                traced[f"dual/{label}"] = self._state.duals[at]
        return traced

    def per_label(self, confusion: Cells = (), duals: tuple[float, ...] = ()) -> NDArray[np.float64]:
        """Return [K, K]: the total of a valid answer k (column) about a paper of label y (row).

        As it is now, or if its confusion and duals were these. Agrees with `score` bit for bit.
        """
        state = msgspec.structs.replace(
            self._state, confusion=confusion or self._state.confusion, duals=duals or self._state.duals
        )
        return np.array([[rounded_sum(self.table.valid, task) for task in row] for row in self._task_terms(state)])

    def _task_terms(self, state: RewardState) -> Matrix:
        if self.objective is not None:
            return self.objective.task_terms(View(ShareTable(state.confusion), self.memory.prior, state.duals))
        right = [self.table.correct * weight for weight in self.weights]
        return [[one if y == k else self.table.wrong for k in range(len(right))] for y, one in enumerate(right)]

    def _indices(self, golds: Sequence[str], answers: Sequence[Answer]) -> list[tuple[int, int | None]]:
        """Return (truth, prediction) as positions in the labels; None for an invalid answer."""
        if len(golds) != len(answers):
            raise DataError(
                "every answer needs a gold label", field="golds", value=len(golds), allowed=str(len(answers))
            )
        position = {label: at for at, label in enumerate(self.labels)}
        for label in (*golds, *(answer.label for answer in answers)):
            if label is not None and label not in position:
                allowed = ", ".join(self.labels)
                raise DataError("no such label in this task", field="label", value=label, allowed=allowed)
        return [
            (position[gold], None if answer.label is None else position[answer.label])
            for gold, answer in zip(golds, answers, strict=True)
        ]


def per_label_at(reward: Reward, confusion: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix r[y, k] that a reward would pay if its confusion were this one; duals stay as they are.

    Args:
        reward: any reward over K labels; one that does not react pays the same for all.
        confusion: shares [K, K], rows the truth, columns the predictions; or [K, K + 1] with the
            invalid answers last.
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
    return reward.per_label(tuple(map(tuple, table.tolist())))


def followed(reward: Reward) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return what a reward pays as a function of the confusion shares [K, K]; duals take one step a call.

    For following a policy that the reward itself improves; make a fresh one for every ascent.
    """
    duals, objective = reward.state().duals, reward.objective
    if objective is None or not duals:
        return lambda shares: per_label_at(reward, shares)

    def stepping(shares: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal duals
        cells = tuple((*row, 0.0) for row in shares.tolist())
        duals = objective.next_duals(View(ShareTable(cells), reward.memory.prior, duals))
        return reward.per_label(cells, duals)

    return stepping
