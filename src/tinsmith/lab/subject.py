"""A subject: what a run is about, in six methods. Reward, evaluation, alarms, checkpoints and resuming are the loop's.

Items of a split; environments for an item; reading what was answered; its reward as named terms; figures of answers,
for metrics and the page alike; sections of its page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from tinsmith.lab.rollout_metrics import Line
from tinsmith.lab.rollouts import A, Ground, I, Rollout
from tinsmith.lab.terms import Terms


class Side(StrEnum):
    """Which items."""

    TRAIN = "train"
    HELD_OUT = "held_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTerms:
    """A reward whose terms have names that only the subject knows; each is an attribute too."""

    values: Mapping[str, float]
    total: float

    def names(self) -> tuple[str, ...]:
        """See Terms."""
        return tuple(self.values)

    def __getattr__(self, name: str) -> float:
        """Return a term."""
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRecord:
    """A section of a page: a text or a table; or why there is none."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    failure: str = ""


class Subject(Ground[I, A], Protocol[I, A]):
    """See the module. What a Ground does, it does too: environments of an item, and reading what they came to."""

    def items(self, side: Side) -> Sequence[I]:
        """Return the items to train on, or those held out."""
        ...

    def terms(self, rollout: Rollout[I, A]) -> Terms:
        """Return the reward of what was read."""
        ...

    def figures(self, rollouts: Sequence[Rollout[I, A]]) -> Mapping[str, float]:
        """Return what is told of one item's answers beside their reward, such as `metric/words`; means over them."""
        ...

    def facts(self, rollout: Rollout[I, A]) -> Line:
        """Return what a rollout's line says of its answer."""
        ...

    def sections(self, rollouts: Sequence[Rollout[I, A]]) -> Sequence[SectionRecord]:
        """Return sections of the page, from the last policy's answers to the held-out items."""
        ...

    def close(self) -> None:
        """Let go of what it holds open."""
        ...
