"""Knows how a judge that cannot read prefers: by the surface of two responses, and by rules where it is given some.

The surface: who repeats more of the instruction's words is better, of equals who has more words, of
equals who has more characters. That is how a judge goes wrong that takes fluency and length for
quality. Given a rubric of rules, it counts which response passes more of it (or scores the rubric's
tree), and falls back on the surface only where that is equal.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.judge.tree import evaluate, pass_rate
from tinsmith.studies.rubrics.rules.rule_text import RuleJudge
from tinsmith.studies.rubrics.task import RubricTask


class Ground(enum.StrEnum):
    """What decided between two responses."""

    RUBRIC = "rubric"
    SURFACE = "surface"
    PLACE = "place"
    """Nothing did: the one that was shown first was taken."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """A choice between two responses."""

    first: bool
    """Whether the one shown first was preferred."""
    ground: Ground
    scores: tuple[float, float] | None
    """What the rubric gave each; None without one."""


def surface_choice(prompt: str, first: str, second: str) -> RuleChoice:
    """Choose between two responses by their surface.

    >>> surface_choice("Name a bird.", "A robin.", "The name of a bird is: robin.").first
    False
    """
    one, other = _surface(prompt, first), _surface(prompt, second)
    if one == other:
        return RuleChoice(first=True, ground=Ground.PLACE, scores=None)
    return RuleChoice(first=one > other, ground=Ground.SURFACE, scores=None)


def rubric_choice(prompt: str, rubric: RubricTask, first: str, second: str) -> RuleChoice:
    """Choose between two responses by a rubric of rules, which need not be that of the instruction.

    Raises:
        DataError: a criterion is prose.
    """
    judge = RuleJudge(rubric.criteria)
    one, other = (rubric_score(rubric, judge, response) for response in (first, second))
    if one == other:
        blind = surface_choice(prompt, first, second)
        return RuleChoice(first=blind.first, ground=blind.ground, scores=(one, other))
    return RuleChoice(first=one > other, ground=Ground.RUBRIC, scores=(one, other))


def rubric_score(rubric: RubricTask, judge: RuleJudge, response: str) -> float:
    """Return the pass rate of a response, or its score by the rubric's tree where it has one."""
    verdicts = judge.held(response)
    return pass_rate(verdicts) if rubric.tree is None else evaluate(rubric.tree, verdicts).score


def _surface(prompt: str, response: str) -> tuple[int, int, int]:
    words = words_of(response)
    return len(set(words) & set(words_of(prompt))), len(words), len(response)
