"""Reward of all answers of a step together: a judge, or one with a memory of earlier answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tinsmith.lab.environment import Failed

LARGEST_REWARD: Final = 1e15
"""Of a reward, a metric or a reward's setting, whatever its sign: sums and squares of more leave the range of
numbers in training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Finished conversation, as a reward of a step reads it."""

    item: Any
    replies: tuple[Any, ...]
    """Parsed replies; the last one is the answer."""
    text: str
    """Last reply as text."""
    group: int = 0
    """Equal for all conversations of one group."""
    seed: int = 0
    """Seed of the group, as passed to `Turns.reply`."""
    observations: tuple[str, ...] = ()
    """Texts of the environment between the model's replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Reward of an answer by terms, and its fields in `rollouts.jsonl`."""

    terms: Mapping[str, float]
    record: Mapping[str, object] = field(default_factory=dict[str, object])
    metrics: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    """Unrewarded metrics; None or a missing one does not apply to this answer."""

    @property
    def total(self) -> float:
        """The sum of the terms; of several rounded to 12 decimals."""
        found = math.fsum(self.terms.values())
        return round(found, 12) if len(self.terms) > 1 else found


Groups = Sequence[Sequence[Scored | Failed]]
"""The answers to each item."""


class StepReward(ABC):
    """Base class of rewards of all answers of a step together."""

    terms: ClassVar[tuple[str, ...]] = ("reward",)
    """Names of the terms, whose sum is the reward."""
    metrics: ClassVar[tuple[str, ...]] = ()
    """Names of the metrics."""

    @abstractmethod
    def __call__(self, answers: Sequence[Conversation]) -> Sequence[Scored | Failed]:
        """Return the reward of each answer by the state before this step; then update the state.

        What an evaluation asks does not enter it: the state is put back.
        """

    def state(self) -> object:
        """Return the state for resuming a run, as plain JSON values; None if there is none."""
        return None

    def restore(self, state: object) -> None:
        """Restore the state from `state`."""
        del state

    def trace(self) -> Mapping[str, float]:
        """Return figures of the state after a step, as metrics `reward/NAME`."""
        return {}

    def line(self, scored: Scored) -> Mapping[str, object]:
        """Return the answer's fields in a rollout's line."""
        return {"terms": dict(scored.terms), "total": scored.total, **scored.record}

    def figures(self, groups: Groups) -> Mapping[str, float] | None:
        """Return the metrics of an evaluation in place of mean rewards, by name; None for the mean rewards."""
        del groups
        return None

    def train_figures(self, groups: Groups) -> Mapping[str, float]:
        """Return figures of a training step beside rewards, by name."""
        del groups
        return {}

    def open(self, model: Callable[[], str]) -> None:
        """Prepare for a run before its first step; `model` returns the base's folder, or its name."""
        del model

    def close(self) -> None:
        """Release resources at the end of a run, or after its failure."""
        return


class _NoStepReward(StepReward):
    """Stand-in for a task without a reward of whole steps: it has neither state nor metrics."""

    def __call__(self, answers: Sequence[Conversation]) -> Sequence[Scored | Failed]:
        """Score nothing: the task's functions do."""
        raise NotImplementedError


NO_STEP_REWARD: Final = _NoStepReward()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTerms:
    """A rollout's reward, and its terms by name in their fixed order; each is an attribute too."""

    values: Mapping[str, float]
    total: float

    def __getattr__(self, name: str) -> float:
        """Return a term."""
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


def rounded_sum(*terms: float) -> float:
    """Return the exact sum, rounded to 12 decimals, so that 0.05 - 0.60 is -0.55; -0.0 becomes 0.0."""
    return round(math.fsum(terms), 12) + 0.0
