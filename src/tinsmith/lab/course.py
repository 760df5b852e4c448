"""A course: what a run trains on, what its rollouts earn, and how its policy is examined.

The loop knows nothing else of what it teaches: papers with labels, tasks with criteria, conversations of two models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import tinker

from tinsmith.lab.grouping import ScoredGroup
from tinsmith.lab.progress import Progress, untold
from tinsmith.lab.rollout_metrics import Line
from tinsmith.lab.rollouts import A, Ground, I, I_contra, Rollout
from tinsmith.lab.settings import CommonSettings, Selection
from tinsmith.lab.terms import Terms
from tinsmith.stats.alarms import Alarm


@dataclass(frozen=True, slots=True, order=True)
class Score:
    """How good a policy was in an examination; compared in this order."""

    value: float
    tie_break: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Examinee:
    """A policy while it is trained."""

    client: tinker.SamplingClient
    trainer: tinker.TrainingClient
    base: Callable[[], tinker.SamplingClient]
    """The model under the adapter."""
    progress: Progress = untold
    """Is told how the answers come in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What an examination found."""

    metrics: Mapping[str, float]
    lines: Sequence[Line]
    """Its rollouts."""
    score: Score
    alarms: Sequence[Alarm] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What the last look found."""

    metrics: Mapping[str, float]
    lines: Sequence[Line]


Look = Callable[[tinker.SamplingClient, int, str, Progress], Tested]
"""Looks at the test split with a policy, its step, and the name that what it finds goes by."""


def chosen_and_last(
    look: Look,
    chosen: tinker.SamplingClient,
    chosen_step: int,
    last: tinker.SamplingClient | None,
    last_step: int,
    progress: Progress,
) -> Tested:
    """Look with the chosen policy as `test` and the last one as `test_last`; at one that is both (None) only once."""
    first = look(chosen, chosen_step, "test", progress)
    if last is None:
        same = {key.replace("test", "test_last", 1): value for key, value in first.metrics.items()}
        return Tested(metrics={**first.metrics, **same}, lines=first.lines)
    other = look(last, last_step, "test_last", progress)
    return Tested(metrics={**first.metrics, **other.metrics}, lines=[*first.lines, *other.lines])


def tested_share(
    settings: CommonSettings, tested: Sequence[object], examined: Sequence[object]
) -> float:
    """Return how many examinations a test of the chosen policy is worth, and of the last one where it is another."""
    policies = 1 if settings.select_by is Selection.LAST else 2
    return policies * len(tested) / max(1, len(examined))


class ExactGradient(Protocol[I_contra]):
    """A part of the policy gradient that is computed and not sampled."""

    def datums(
        self, trainer: tinker.TrainingClient, items: Sequence[I_contra]
    ) -> list[tinker.Datum]:
        """Return cross-entropy datums whose gradient it is, under the trainer's weights of now."""
        ...

    def besides(self, terms: Terms) -> float:
        """Return the part of a reward that rollouts are still compared by."""
        ...


class Course(Protocol[I, A]):
    """See the module."""

    @property
    def ground(self) -> Ground[I, A]:
        """Where its rollouts take place."""
        ...

    @property
    def train_items(self) -> Sequence[I]:
        """What is trained on."""
        ...

    @property
    def forks(self) -> int:
        """Second replies for each first one; 1 where nothing forks."""
        ...

    @property
    def by_turn(self) -> bool:
        """Whether each turn has an advantage of its own, from forks."""
        ...

    @property
    def last_look(self) -> float:
        """How many examinations the last look is worth, at most, by the answers it asks for."""
        ...

    def score(self, rollouts: Sequence[Rollout[I, A]]) -> Sequence[Terms]:
        """Return each rollout's reward, by the state that rewards had before this step; then let the step enter it."""
        ...

    def exact(self) -> ExactGradient[I] | None:
        """Return what replaces the sampled gradient of the task term, by the state before the step; None: nothing."""
        ...

    def saw(self, step: int, groups: Sequence[ScoredGroup[I, A]]) -> Sequence[Alarm]:
        """Watch a training step; return the alarms that begin with it."""
        ...

    def train_metrics(self, groups: Sequence[ScoredGroup[I, A]]) -> Mapping[str, float]:
        """Return what is told of a training step beside rewards and groups."""
        ...

    def facts(self, rollout: Rollout[I, A]) -> Line:
        """Return what a rollout's line says of its answer."""
        ...

    def item_facts(self, item: I) -> Line:
        """Return what a line says of an item that came to nothing."""
        ...

    def examine(self, policy: Examinee, step: int) -> Examined:
        """Look at a policy while it is trained."""
        ...

    def test(
        self,
        chosen: tinker.SamplingClient,
        chosen_step: int,
        last: tinker.SamplingClient | None,
        last_step: int,
        progress: Progress = untold,
    ) -> Tested:
        """Look at the chosen policy, and at the last one; None: it is the chosen one."""
        ...

    def trace(self) -> Mapping[str, float]:
        """Return what is worth telling of the rewards' state after a step."""
        ...

    @property
    def alarms(self) -> Sequence[Alarm]:
        """Every alarm so far."""
        ...

    def state(self) -> object:
        """Return what a resumed run must know, as plain JSON values."""
        ...

    def restore(self, state: object) -> None:
        """Go on from what `state` returned."""
        ...

    def close(self) -> None:
        """Let go of what it holds open; the run is over, or lost."""
        ...
