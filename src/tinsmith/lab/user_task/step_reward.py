"""A reward that sees all answers of a step together: a judge, or one that remembers what was answered before."""

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
class Asked:
    """A finished conversation, as a reward of a step sees it."""

    item: Any
    replies: tuple[Any, ...]
    """As `parse` reads them; the last one is the answer."""
    text: str
    """The last reply as it was written."""
    group: int = 0
    """The same for all that are compared with each other."""
    seed: int = 0
    """That of the group, as `Turns.reply` was given it."""
    heard: tuple[str, ...] = ()
    """Texts of the environment between the model's replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Reward of an answer, term by term, and what its line in `rollouts.jsonl` says of it."""

    terms: Mapping[str, float]
    record: Mapping[str, object] = field(default_factory=dict[str, object])
    metrics: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    """Metrics that are not rewarded; one that is None or missing does not apply to this answer."""

    @property
    def total(self) -> float:
        """The sum of the terms; of several rounded to 12 decimals."""
        found = math.fsum(self.terms.values())
        return round(found, 12) if len(self.terms) > 1 else found


Groups = Sequence[Sequence[Scored | Failed]]
"""The answers to each item."""


class StepReward(ABC):
    """Base class of a reward that sees all answers of a step together."""

    terms: ClassVar[tuple[str, ...]] = ("reward",)
    """Names of its terms, whose sum is the reward."""
    metrics: ClassVar[tuple[str, ...]] = ()
    """Names of the metrics that it gives."""

    @abstractmethod
    def __call__(self, answers: Sequence[Asked]) -> Sequence[Scored | Failed]:
        """Return the reward of each answer, by the state before this step; then let the step enter it.

        What an evaluation asks does not enter it: the state is put back.
        """

    def state(self) -> object:
        """Return what a resumed run must know, as plain JSON values; None: it remembers nothing."""
        return None

    def restore(self, state: object) -> None:
        """Go on from what `state` returned."""
        del state

    def trace(self) -> Mapping[str, float]:
        """Return figures of the state after a step, as metrics `reward/NAME`."""
        return {}

    def line(self, scored: Scored) -> Mapping[str, object]:
        """Return what a rollout's line says of its answer."""
        return {"terms": dict(scored.terms), "total": scored.total, **scored.record}

    def figures(self, groups: Groups) -> Mapping[str, float] | None:
        """Return what an evaluation says in place of mean rewards, by name; None: the mean rewards."""
        del groups
        return None

    def train_figures(self, groups: Groups) -> Mapping[str, float]:
        """Return figures of a training step beside rewards, by name."""
        del groups
        return {}

    def open(self, model: Callable[[], str]) -> None:
        """Take what it needs of the run before the first step; `model` returns the base's folder, or its name."""
        del model

    def close(self) -> None:
        """Let go of what it holds open; the run is over, or lost."""
        return


class _NoStepReward(StepReward):
    """Stands where a task has no reward of whole steps: it remembers nothing, and has no figures of its own."""

    def __call__(self, answers: Sequence[Asked]) -> Sequence[Scored | Failed]:
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
