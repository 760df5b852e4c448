"""Rewards of labels: their registry, and rewards of an answer with one label or several.

A reward is a sum parse + contract + task + think. Only the task term looks at the label: it is a constant, or reacts to
the answers so far. The failure to run a rollout at all is no answer and has no reward; it never comes here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from tinsmith.lab.labels.contracts import Answer, Subject
from tinsmith.lab.labels.objectives import (
    Cells,
    GMeanInfluence,
    InverseShare,
    MacroF1Influence,
    Matrix,
    MinRecallDual,
    Objective,
    PriorMatching,
    Shares,
    ShareTable,
    diagonal,
)
from tinsmith.lab.labels.task import Item, Task
from tinsmith.lab.user_task.step_reward import LARGEST_REWARD, Conversation, NamedTerms, Scored, StepReward, rounded_sum
from tinsmith.stats.incentives import Optimum, Posteriors, reacting_optimum, table_optimum
from tinsmith.types.errors import CheckpointError, ConfigError, DataError

TERMS: Final = ("parse", "contract", "task", "think")
"""Terms of a reward: valid JSON, contract, label, think tag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardKind:
    """Entry of REWARDS: the rewarded objective, and its constants."""

    about: str
    unparsed: float = -1.0
    invalid: float = -0.75  # JSON outside the contract.
    valid: float = 0.05
    correct: float = 1.0  # Times the class weight of the gold label.
    wrong: float = -0.6
    think: float = -1.0  # On top of whatever else.
    objective: type[Objective] | None = None  # The source of the task term; None: `correct` and `wrong`.
    first_weight: float = 1.0  # Class weight of the first label; the others have 1. Only without an objective.

    @property
    def settings(self) -> tuple[str, ...]:
        """Names that `make_reward` takes."""
        if self.objective is None:
            return ("class_weights",)
        return (*(field.name for field in fields(self.objective)), *_MEMORY)

    def terms(self, answer: Answer, task: float) -> NamedTerms:
        """Return an answer's terms; `task` counts only where the answer has a valid label."""
        contract = self.valid if answer.payload_ok else self.invalid
        values = (
            0.0 if answer.parse_ok else self.unparsed,
            contract if answer.parse_ok else 0.0,
            task if answer.payload_ok else 0.0,
            self.think if answer.has_think else 0.0,
        )
        return NamedTerms(values=dict(zip(TERMS, values, strict=True)), total=rounded_sum(*values))


_MEMORY: Final = ("window", "prior", "first_shares")
REWARDS: Final[Mapping[str, RewardKind]] = MappingProxyType(
    {
        # The totals of soft, +0.75, 0, -0.5, -1 and -1 for a think tag, are the source notes'; how they split is our
        # choice. All others have +1.05, -0.55, -0.75, -1; exp5's +3.05 fixes the split: 0.05 + 3 * 1.0.
        "soft": RewardKind(
            about="the contract, mildly the right label", invalid=-0.5, valid=0.25, correct=0.5, wrong=-0.25
        ),
        "strong": RewardKind(about="the right label, whatever its class"),
        "exp5": RewardKind(about="the right label, three times as much for the first class", first_weight=3.0),
        "macro_f1": RewardKind(about="what raises the macro-F1", objective=MacroF1Influence),
        "prior_matching": RewardKind(
            about="the right label, and labels in their known shares", objective=PriorMatching
        ),
        "dual": RewardKind(about="the right label, with every recall at least tau", objective=MinRecallDual),
        "g_mean": RewardKind(about="what raises the product of the recalls", objective=GMeanInfluence),
        "inverse_share": RewardKind(about="the right label, more where it is said seldom", objective=InverseShare),
    }
)
"""Every reward by its name."""


class RewardState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """State of a reward; JSON preserves it to the last bit."""

    reward: str
    labels: tuple[str, ...]
    batches: int  # Updates so far.
    confusion: Cells  # Cells of the share table; empty for a reward that does not react.
    duals: Shares  # One per label, for a reward that has them.

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


class Reward:
    """Reward of a batch of answers about one label.

    Within a batch the state stands still. An invalid answer counts as an answer that says nothing;
    it earns the table's `invalid` or `unparsed` and no task term.
    """

    def __init__(
        self,
        name: str,
        labels: tuple[str, ...],
        *,
        weights: Shares = (),
        objective: Objective | None = None,
        prior: Shares = (),
        first_shares: Shares = (),
        window: float = 512.0,
    ) -> None:
        """Create the reward in its initial state.

        `weights` are factors on the correct task term of papers of each label where there is no `objective`: the term
        is from the table then, and nothing is remembered. `prior` is pi, the share of papers of each label,
        `first_shares` that of answers at step 0. A batch of N answers enters the confusion with weight N / `window`, at
        most 1.
        """
        self.name, self.labels, self.table, self.objective = name, labels, REWARDS[name], objective
        self._weights, self._prior, self._window = weights, prior, window
        # At the start predictions do not depend on the truth, and no answer is invalid.
        start = tuple((*(truth * share for share in first_shares), 0.0) for truth in prior)
        duals = () if objective is None else objective.first_duals(len(labels))
        self._state = RewardState(reward=name, labels=labels, batches=0, confusion=start, duals=duals)

    def score(self, golds: Sequence[str], answers: Sequence[Answer]) -> list[NamedTerms]:
        """Return each answer's terms. Pure: uses the state before this batch."""
        task = self._task_terms(self._state)
        return [
            self.table.terms(answer, 0.0 if k is None else task[y][k])
            for (y, k), answer in zip(self._indices(golds, answers), answers, strict=True)
        ]

    def update(self, golds: Sequence[str], answers: Sequence[Answer]) -> None:
        """Update the state with a batch, once per step, after `score`: first the confusion, then the duals."""
        counts = Counter((y, len(self.labels) if k is None else k) for y, k in self._indices(golds, answers))
        total, before = counts.total(), self._state
        if not total or self.objective is None:
            return
        weight = min(1.0, total / self._window)
        cells = tuple(
            tuple((1.0 - weight) * share + weight * (counts[y, k] / total) for k, share in enumerate(row))
            for y, row in enumerate(before.confusion)
        )
        duals = self.objective.next_duals(ShareTable(cells, duals=before.duals))
        self._state = msgspec.structs.replace(before, batches=before.batches + 1, confusion=cells, duals=duals)

    def state(self) -> RewardState:
        """Return the state for `restore`, which continues with the same bits."""
        return self._state

    def restore(self, state: RewardState) -> None:
        """Restore a state."""
        if (state.reward, state.labels) != (self.name, self.labels):
            found, own = (f"{one.reward} over {', '.join(one.labels)}" for one in (state, self._state))
            raise CheckpointError("this state belongs to another reward", field="reward", value=found, allowed=own)
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
            traced[f"ema_share/{label}"] = shares.answered(at)
            traced[f"correct/{label}"] = float(totals[at, at])
            traced[f"wrong/{label}"] = float(totals[at - 1, at])
            if self._state.duals:
                traced[f"dual/{label}"] = self._state.duals[at]
        return traced

    def per_label(self, confusion: Cells = (), duals: Shares = ()) -> NDArray[np.float64]:
        """Return [K, K]: the total of a valid answer k (column) about a paper of label y (row).

        As it is now, or if its confusion and duals were these. Agrees with `score` bit for bit.
        """
        state = msgspec.structs.replace(
            self._state, confusion=confusion or self._state.confusion, duals=duals or self._state.duals
        )
        return np.array([[rounded_sum(self.table.valid, task) for task in row] for row in self._task_terms(state)])

    def _task_terms(self, state: RewardState) -> Matrix:
        if self.objective is not None:
            return self.objective.task_terms(ShareTable(state.confusion, self._prior, state.duals))
        return diagonal([self.table.correct * weight for weight in self._weights], self.table.wrong)

    def _indices(self, golds: Sequence[str], answers: Sequence[Answer]) -> list[tuple[int, int | None]]:
        """Return (truth, prediction) as positions in the labels; None for an invalid answer."""
        if len(golds) != len(answers):
            what = "every answer needs a gold label"
            raise DataError(what, field="golds", value=len(golds), allowed=str(len(answers)))
        position = {label: at for at, label in enumerate(self.labels)}
        for label in (*golds, *(answer.label for answer in answers)):
            if label is not None and label not in position:
                allowed = self.labels
                raise DataError("no such label in this task", field="label", value=label, allowed=allowed)
        return [
            (position[gold], None if answer.label is None else position[answer.label])
            for gold, answer in zip(golds, answers, strict=True)
        ]


def make_reward(name: str, task: Task, **settings: object) -> Reward:
    """Return a reward at its start.

    Settings of `soft`, `strong` and `exp5`: `class_weights`, a mapping from labels to the factor on the correct task
    term (labels left out: 1). Settings of the others: the fields of their objective, and `window`, `prior` and
    `first_shares` of the memory, the last two as mappings from every label to its share (default: all equal).

    >>> from tinsmith.lab.labels.task import TASKS
    >>> make_reward("exp5", TASKS["disruption"]).per_label()[0].tolist()
    [3.05, -0.55, -0.55]
    """
    if name not in REWARDS:
        raise ConfigError("there is no such reward", field="reward", value=name, allowed=REWARDS)
    kind, labels = REWARDS[name], task.labels
    for setting, value in settings.items():
        if setting not in kind.settings:
            what, allowed = f"the reward {name} has no such setting", kind.settings
            raise ConfigError(what, field=setting, value=value, allowed=allowed)
    if kind.objective is None:
        weights = dict.fromkeys(labels, 1.0)
        if "class_weights" in settings:
            weights |= _by_label("class_weights", settings["class_weights"], labels)
        else:
            weights[labels[0]] = kind.first_weight
        return Reward(name, labels, weights=tuple(weights[label] for label in labels))
    numbers = {key: _number(key, value) for key, value in settings.items() if key not in _MEMORY}
    window = _number("window", settings.get("window", 512.0))
    if window < 1.0:
        allowed = ">= 1 and finite; 512 or more, or the reward is noise"
        raise ConfigError("the window must be a number of answers", field="window", value=window, allowed=allowed)
    shares = {key: _shares(key, settings.get(key), labels) for key in ("prior", "first_shares")}
    return Reward(name, labels, objective=kind.objective(**numbers), window=window, **shares)


def _shares(key: str, given: object, labels: Sequence[str]) -> Shares:
    if given is None:
        return (1.0 / len(labels),) * len(labels)
    named = _by_label(key, given, labels)
    shares = tuple(named.get(label, -1.0) for label in labels)
    positive = key == "prior"
    if min(shares) < 0.0 or (positive and min(shares) == 0.0) or abs(math.fsum(shares) - 1.0) > 1e-6:
        allowed = f"{'> 0' if positive else '>= 0'} for each of {', '.join(labels)}"
        raise ConfigError("the shares must name every label and sum to 1", field=key, value=named, allowed=allowed)
    return shares


def _by_label(key: str, value: object, labels: Sequence[str]) -> dict[str, float]:
    if not isinstance(value, Mapping) or not set(value) <= set(labels):
        allowed = f"a mapping from labels ({', '.join(labels)}) to numbers"
        raise ConfigError("this needs one number for every label", field=key, value=value, allowed=allowed)
    return {str(label): _number(f"{key}.{label}", number) for label, number in value.items()}


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST_REWARD:
        raise ConfigError("a finite number", field=key, value=value, allowed=f"up to {LARGEST_REWARD:g}")
    return float(value)


def reward_optimum(posteriors: Posteriors, make: Callable[[], Reward]) -> Optimum:
    """Return the optimum of a reward that `make` returns in its initial state; exact for tables."""
    reward = make()
    if reward.objective is not None:
        return reacting_optimum(posteriors, lambda: _followed(make()))
    return table_optimum(posteriors, reward.per_label())


def _followed(reward: Reward) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return a reward as a function of the confusion shares [K, K]; duals take one step per call."""
    duals, objective = reward.state().duals, reward.objective

    def stepping(shares: NDArray[np.float64]) -> NDArray[np.float64]:
        nonlocal duals
        cells = tuple((*row, 0.0) for row in shares.tolist())
        if objective is not None:
            duals = objective.next_duals(ShareTable(cells, duals=duals))
        return reward.per_label(cells, duals)

    return stepping


class LabelReward(StepReward):
    """Reward of an answer with one label or several: the mean over the rewards of its subjects.

    Each has a memory of its own, fed with what the answers say of that subject alone. So the mean of two rewards that
    each pay for macro-F1 pays for the mean of the two macro-F1s.
    """

    def __init__(self, task: Task, rewards: Sequence[Reward]) -> None:
        """Create the reward from one per subject, in the task's order, all with the same table."""
        self.task, self.rewards = task, tuple(rewards)
        several = tuple(subject.value for subject in task.subjects)
        names = TERMS if len(several) == 1 else ("parse", "contract", *several, "think")
        self.terms = names  # pyright: ignore[reportAttributeAccessIssue]  # of its task

    def __call__(self, answers: Sequence[Conversation]) -> list[Scored]:
        """Score answers by the state before this step, then update the state; terms add up to the reward."""
        items, read = [one.item for one in answers], [one.replies[-1] for one in answers]
        scored = self.score(items, read)
        self.update(items, read)
        share = {subject.value: 1 / len(self.rewards) for subject in self.task.subjects}
        return [
            Scored(
                terms={name: value * share.get(name, 1.0) for name, value in terms.values.items()},
                record=self.task.facts(item.golds, answer),
            )
            for terms, item, answer in zip(scored, items, read, strict=True)
        ]

    def score(self, items: Sequence[Item], answers: Sequence[Answer]) -> list[NamedTerms]:
        """Return each answer's terms; of several subjects each counts by its share in the total.

        Pure: it uses the states as they were before this batch.
        """
        by_subject = [reward.score(*_alone(items, answers, place)) for place, reward in enumerate(self.rewards)]
        return [self._together(some) for some in zip(*by_subject, strict=True)]

    def _together(self, some: Sequence[NamedTerms]) -> NamedTerms:
        first, paid = some[0], [one.task for one in some]
        total = rounded_sum(first.parse, first.contract, *(one / len(paid) for one in paid), first.think)
        values = zip(self.terms, (first.parse, first.contract, *paid, first.think), strict=True)
        return NamedTerms(values=dict(values), total=total)

    def update(self, items: Sequence[Item], answers: Sequence[Answer]) -> None:
        """Let a batch enter the states; once a step, after `score`."""
        for place, reward in enumerate(self.rewards):
            reward.update(*_alone(items, answers, place))

    def state(self) -> object:
        """Return the state for `restore`, as plain JSON values."""
        return self.task.by_subject([msgspec.to_builtins(reward.state()) for reward in self.rewards])

    def restore(self, state: object) -> None:
        """Restore a state."""
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
    """Return the reward of all subjects of a task by one entry of REWARDS, in its initial state."""
    return LabelReward(task, [make_reward(name, one, **settings) for one in task.alone])


def paid_alone(terms: NamedTerms, subject: Subject) -> float:
    """Return an answer's reward for this subject alone."""
    task = terms.values.get(subject.value)
    return terms.total if task is None else rounded_sum(terms.parse, terms.contract, task, terms.think)


def _alone(items: Sequence[Item], answers: Sequence[Answer], place: int) -> tuple[list[str], list[Answer]]:
    return [item.golds[place] for item in items], [answer.alone(place) for answer in answers]
