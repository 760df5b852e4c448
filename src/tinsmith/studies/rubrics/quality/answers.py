"""Preference pairs under every condition, and how a judge that cannot read answers: by the surface, and by rules.

The surface: who repeats more of the instruction's words is better, of equals who has more words, of
equals who has more characters. That is how a judge goes wrong that takes fluency and length for
quality. Given a rubric of rules, it counts which response passes more of it (or scores the rubric's
tree), and falls back on the surface only where that is equal.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tinsmith.lab.judge.rules.rule_text import RuleJudge, parse_rule
from tinsmith.lab.judge.text_measures import words_of
from tinsmith.lab.judge.verdicts import FailureCause, JudgeFailure, Spent, Verdict
from tinsmith.studies.rubrics.quality.pairs import PreferencePair
from tinsmith.studies.rubrics.quality.statistics import Condition, CriterionVerdicts, JudgedPair
from tinsmith.studies.rubrics.task import RubricTask
from tinsmith.types.errors import DataError
from tinsmith.types.seeds import derive


class Ground(enum.StrEnum):
    """Ground of a choice between two responses."""

    RUBRIC = "rubric"
    SURFACE = "surface"
    PLACE = "place"
    """Nothing did: the one that was shown first was taken."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """A choice between two responses."""

    first: bool
    """The one shown first was preferred."""
    ground: Ground
    scores: tuple[float, float] | None
    """The rubric's score of each; None without one."""


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
    """Choose between two responses by a rubric of rules, which need not be that of the instruction."""
    judge = RuleJudge(rubric.criteria)
    one, other = (rubric_score(rubric, judge, response) for response in (first, second))
    if one == other:
        blind = surface_choice(prompt, first, second)
        return RuleChoice(first=blind.first, ground=blind.ground, scores=(one, other))
    return RuleChoice(first=one > other, ground=Ground.RUBRIC, scores=(one, other))


def rubric_score(rubric: RubricTask, judge: RuleJudge, response: str) -> float:
    """Return a response's score by the rubric's tree or weights."""
    return rubric.score(judge.held(response))


def _surface(prompt: str, response: str) -> tuple[int, int, int]:
    words = words_of(response)
    return len(set(words) & set(words_of(prompt))), len(words), len(response)


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """A pair under one condition: whose rubric is shown, and which response comes first."""

    pair: PreferencePair
    condition: Condition
    rubric: PreferencePair | None
    chosen_first: bool

    def responses(self, *, turned: bool = False) -> tuple[str, str]:
        """The two responses in the order they are shown."""
        pair = self.pair
        both = (pair.chosen, pair.rejected)
        return both if self.chosen_first != turned else (both[1], both[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer:
    """The judge's preference of one pair under one condition."""

    showing: Showing
    right: bool | None
    """It preferred the chosen response, in the order that was drawn; None where an answer is missing."""
    turned: bool | None = None
    """The same in the other order, where the judge was asked in both."""
    ground: Ground | None = None
    scores: tuple[float, float] | None = None
    """The rubric's scores of the chosen and the rejected response, where rules gave them."""
    rationales: tuple[str, ...] = ()
    failures: tuple[JudgeFailure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All answers, and what asking took."""

    answers: tuple[PairAnswer, ...]
    """By pair, then by condition."""
    verdicts: tuple[CriterionVerdicts, ...]
    """Of the pairs' own rubrics, on both responses."""
    unrated: int = 0
    """Pairs whose criteria got no verdicts."""
    once: Spent = field(default_factory=Spent)
    """Cost of asking everything once, counted from the texts: the same whatever the cache held."""
    spent: Spent = field(default_factory=Spent)
    """Cost of what was really sent."""
    from_cache: int = 0
    failures: tuple[tuple[FailureCause, int], ...] = ()
    left_out_fields: tuple[str, ...] = ()

    @property
    def judged(self) -> tuple[JudgedPair, ...]:
        """The pairs that have every answer."""
        by_pair: dict[str, list[PairAnswer]] = {}
        for answer in self.answers:
            by_pair.setdefault(answer.showing.pair.pair_id, []).append(answer)
        made = (_judged(answers) for answers in by_pair.values())
        return tuple(pair for pair in made if pair is not None)


def showings(
    pairs: Sequence[PreferencePair], foreign: Sequence[PreferencePair | None], *, seed: int
) -> tuple[Showing, ...]:
    """Return every pair under every condition; the order of the responses is the pair's, drawn by the seed.

    Where one pair has no other's rubric, the control is left out for all.
    """
    controlled = all(other is not None for other in foreign)
    made: list[Showing] = []
    for pair, other in zip(pairs, foreign, strict=True):
        rubrics = {Condition.WITHOUT: None, Condition.OWN: pair, Condition.OTHER: other}
        first = derive(seed, "order", pair.pair_id) % 2 == 0
        made += [
            Showing(pair=pair, condition=condition, rubric=rubric, chosen_first=first)
            for condition, rubric in rubrics.items()
            if condition is not Condition.OTHER or controlled
        ]
    return tuple(made)


def require_rules(pairs: Sequence[PreferencePair]) -> None:
    """Check that rules alone can judge."""
    for pair in pairs:
        try:
            RuleJudge(pair.task.criteria)
        except DataError as error:
            raise DataError(
                f"pair {pair.pair_id}: {error.what}", field=error.field, value=error.value, fix=error.fix
            ) from None


def answered_by_rules(shown: Sequence[Showing]) -> Answers:
    """Put every showing to the judge that knows surfaces and rules."""
    return Answers(
        answers=tuple(map(_by_rules, shown)),
        verdicts=tuple(each for pair in pairs_of(shown) for each in rule_verdicts(pair)),
    )


def _by_rules(showing: Showing) -> PairAnswer:
    prompt, (first, second) = showing.pair.prompt, showing.responses()
    if showing.rubric is None:
        choice = surface_choice(prompt, first, second)
    else:
        choice = rubric_choice(prompt, showing.rubric.task, first, second)
    scores = choice.scores
    if scores and not showing.chosen_first:
        scores = (scores[1], scores[0])
    return PairAnswer(showing=showing, right=choice.first == showing.chosen_first, ground=choice.ground, scores=scores)


def _judged(answers: Sequence[PairAnswer]) -> JudgedPair | None:
    right = {each.showing.condition: each.right for each in answers if each.right is not None}
    turned = {each.showing.condition: each.turned for each in answers if each.turned is not None}
    if len(right) < len(answers):
        return None
    showing = answers[0].showing
    return JudgedPair(
        pair_id=showing.pair.pair_id,
        prompt=showing.pair.prompt,
        right=right,
        turned=turned if len(turned) == len(answers) else None,
        chosen_first=showing.chosen_first,
    )


def pairs_of(shown: Sequence[Showing]) -> Iterator[PreferencePair]:
    """Return each pair once."""
    return (showing.pair for showing in shown if showing.condition is Condition.OWN)


def all_rules(pair: PreferencePair) -> bool:
    """Return True if no criterion is prose."""
    return all(parse_rule(criterion) is not None for criterion in pair.task.criteria)


def rule_verdicts(pair: PreferencePair) -> list[CriterionVerdicts]:
    """Return what rules say of both responses."""
    judge = RuleJudge(pair.task.criteria)
    return criterion_verdicts(pair, judge.judge(pair.chosen), judge.judge(pair.rejected))


def criterion_verdicts(
    pair: PreferencePair, chosen: Sequence[Verdict], rejected: Sequence[Verdict]
) -> list[CriterionVerdicts]:
    """Return what was said of both responses, criterion by criterion."""
    return [
        CriterionVerdicts(criterion=criterion, chosen=one.passed, rejected=other.passed)
        for criterion, one, other in zip(pair.task.criteria, chosen, rejected, strict=True)
    ]
