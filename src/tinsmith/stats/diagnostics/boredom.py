"""The boredom alarm: whether what an environment answers gets ever more alike while the policy solves nothing.

A loss on the environment's answers is low where these are easily foreseen, and a policy that asks for nothing else
learns nothing. Source: arXiv:2605.24517, which sees it at a high weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.stats.diagnostics.diversity import entropy

WINDOW: Final = 5
"""Steps that are looked at together."""
_LEFT: Final = 0.5
"""Of the entropy of the first steps; below it answers are alike."""
_SOLVED: Final = 0.5
"""Where so many conversations succeed, few answers are needed, and nobody is bored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What happened in one step."""

    commands: tuple[str, ...]
    answers: tuple[str, ...]
    solved: float
    """Share of its conversations that succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boredom:
    """What a run's first and last steps were like."""

    entropy_first: float
    """Of the environment's answers, in nats."""
    entropy_last: float
    different_first: float
    """Share of different commands among all."""
    different_last: float
    alarm: int | None
    """The first step at whose end it is raised; None: never."""


def boredom(steps: Sequence[Heard]) -> Boredom | None:
    """Return it; None where there are fewer steps than are looked at together."""
    if len(steps) < WINDOW:
        return None
    first = _entropy(steps[:WINDOW])
    raised = (end - 1 for end in range(2 * WINDOW, len(steps) + 1) if _bored(steps[end - WINDOW : end], first))
    return Boredom(
        entropy_first=first,
        entropy_last=_entropy(steps[-WINDOW:]),
        different_first=_different(steps[:WINDOW]),
        different_last=_different(steps[-WINDOW:]),
        alarm=next(raised, None),
    )


def _entropy(steps: Sequence[Heard]) -> float:
    return entropy([one for step in steps for one in step.answers])


def _different(steps: Sequence[Heard]) -> float:
    said = [one for step in steps for one in step.commands]
    return len(set(said)) / len(said) if said else 0.0


def _bored(steps: Sequence[Heard], first: float) -> bool:
    solved = sum(one.solved for one in steps) / len(steps)
    return solved < _SOLVED and _entropy(steps) < _LEFT * first
