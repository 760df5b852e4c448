"""Answers of judges to preference pairs: of one that cannot read, by the surface and by rules, or behind an endpoint.

The surface: who repeats more of the instruction's words is better, of equals who has more words, of
equals who has more characters. That is how a judge goes wrong that takes fluency and length for
quality. Given a rubric of rules, it counts which response passes more of it (or scores the rubric's
tree), and falls back on the surface only where that is equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tinsmith.lab.judge.prompting import (
    Comparison,
    JudgeRequest,
    Place,
    Preference,
    Question,
    preference_question,
    rating_question,
    tokens_in,
)
from tinsmith.lab.judge.records import Answered, FailureCause, JudgeFailure, Spent
from tinsmith.lab.judge.rules import RuleJudge, parse_rule
from tinsmith.lab.judge.text_measures import words_of
from tinsmith.studies.rubrics.quality.statistics import (
    Condition,
    CriterionVerdicts,
    Ground,
    PairAnswer,
    PreferencePair,
    complete_pairs,
)
from tinsmith.studies.rubrics.task import RubricTask
from tinsmith.types.errors import DataError, LostError

if TYPE_CHECKING:
    from tinsmith.lab.judge.chat_judge import BlockingJudge

Reply = Answered[Preference] | JudgeFailure


Scores = tuple[float, float]  # Of the first response and of the second, by a rubric.


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All answers, by pair, then by condition; verdicts of the pairs' own rubrics; and what asking took."""

    answers: tuple[PairAnswer, ...]
    verdicts: tuple[CriterionVerdicts, ...]
    unrated: int = 0  # Pairs whose criteria got no verdicts.
    once: Spent = field(default_factory=Spent)
    """Cost of asking everything once, counted from the texts: the same whatever the cache held."""
    spent: Spent = field(default_factory=Spent)  # Cost of what was really sent.
    from_cache: int = 0
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    left_out_fields: tuple[str, ...] = ()


def preferred(
    prompt: str, first: str, second: str, rubric: RubricTask | None = None
) -> tuple[bool, Ground, Scores | None]:
    """Say if the first of two responses is preferred, why, and the scores of a rubric of rules, whoever's it is.

    >>> preferred("Name a bird.", "A robin.", "The name of a bird is: robin.")
    (False, <Ground.SURFACE: 'surface'>, None)
    """
    scores = None
    if rubric is not None:
        judge = RuleJudge(rubric.criteria)
        scores = rubric.score(judge.held(first)), rubric.score(judge.held(second))
        if scores[0] != scores[1]:
            return scores[0] > scores[1], Ground.RUBRIC, scores
    prompt_words = set(words_of(prompt))
    one, other = (
        (len(prompt_words & {*words}), len(words), len(text)) for text in (first, second) for words in [words_of(text)]
    )
    return one >= other, Ground.PLACE if one == other else Ground.SURFACE, scores


def require_rules(pairs: Sequence[PreferencePair]) -> None:
    """Check that rules alone can judge."""
    for pair in pairs:
        try:
            RuleJudge(pair.task.criteria)
        except DataError as error:
            raise DataError(
                f"pair {pair.pair_id}: {error.what}", field=error.field, value=error.value, fix=error.fix
            ) from None


def answered_by_rules(shown: Sequence[PairAnswer]) -> Answers:
    """Put every showing to the judge that knows surfaces and rules."""
    answers: list[PairAnswer] = []
    for one in shown:
        rubric = None if one.rubric is None else one.rubric.task
        first, ground, scores = preferred(one.pair.prompt, *one.responses(), rubric)
        scores = scores if one.chosen_first or not scores else (scores[1], scores[0])
        answers.append(replace(one, right=first == one.chosen_first, ground=ground, scores=scores))
    verdicts = tuple(each for pair in _pairs_of(shown) for each in _rule_verdicts(pair))
    return Answers(answers=tuple(answers), verdicts=verdicts)


def questions_of(shown: Sequence[PairAnswer]) -> tuple[Question[Preference], ...]:
    """Return two calls for each showing: in the order that was drawn, then in the other."""
    return tuple(
        preference_question(
            Comparison(one.pair.prompt, *one.responses(turned=turned), one.rubric.task.criteria if one.rubric else ())
        )
        for one in shown
        for turned in (False, True)
    )


def ratings_of(shown: Sequence[PairAnswer]) -> tuple[JudgeRequest, ...]:
    """Return two judgings for each pair whose rubric rules cannot judge: of its chosen and its rejected response."""
    return tuple(
        JudgeRequest(pair.prompt, response, pair.task.criteria)
        for pair in _pairs_of(shown)
        if not _all_rules(pair)
        for response in (pair.chosen, pair.rejected)
    )


def answered_by_chat(shown: Sequence[PairAnswer], judge: BlockingJudge) -> Answers:
    """Put every showing to a judge behind an endpoint, in both orders; criteria in prose are rated by it as well."""
    questions = questions_of(shown)
    # A wrong key or model is told after two calls, not after thousands; one may be refused for what it says.
    first, last = judge.ask_all([questions[0], questions[-1]])
    if all(isinstance(one, JudgeFailure) and one.cause is FailureCause.REFUSED for one in (first, last)):
        raise _lost([first, last])
    found = [first, *judge.ask_all(questions[1:-1]), last]
    requests = ratings_of(shown)
    rated = judge.judge_all(requests)
    verdicts: list[CriterionVerdicts] = []
    unrated, places = 0, iter(rated)
    for pair in _pairs_of(shown):
        if _all_rules(pair):
            verdicts += _rule_verdicts(pair)
            continue
        chosen, rejected = next(places), next(places)
        if isinstance(chosen, Answered) and isinstance(rejected, Answered):
            verdicts += _verdicts(pair, *([each.passed for each in one.value] for one in (chosen, rejected)))
        else:
            unrated += 1
    calls: list[tuple[Question[Any], Answered[Any] | JudgeFailure]] = [
        *zip(questions, found, strict=True),
        *zip(map(rating_question, requests), rated, strict=True),
    ]
    once = Spent(estimated=True)  # from the texts of every call that got an answer; a provider may count otherwise
    for question, one in calls:
        once += _texts(question, one.value) if isinstance(one, Answered) else Spent()
    done = tuple(_by_chat(one, *found[2 * i : 2 * i + 2]) for i, one in enumerate(shown))
    if not complete_pairs(done):
        raise _lost(found)
    return Answers(
        answers=done,
        verdicts=tuple(verdicts),
        unrated=unrated,
        once=once,
        spent=sum((one.spent for _, one in calls), Spent()),
        from_cache=sum(isinstance(one, Answered) and one.from_cache for _, one in calls),
        failures=dict(sorted(Counter(one.cause.value for _, one in calls if isinstance(one, JudgeFailure)).items())),
        left_out_fields=tuple(sorted(judge.left_out)),
    )


def _lost(found: Sequence[Reply]) -> LostError:
    failure = next(one for one in found if isinstance(one, JudgeFailure))
    what = f"the judge answered no pair completely: {failure.detail}"
    fix = "check judge_model, judge_base_url and the key, then repeat the command: answers are kept"
    return LostError(what, field="judge_model", value=str(failure.cause), fix=fix)


def _by_chat(showing: PairAnswer, drawn: Reply, turned: Reply) -> PairAnswer:
    if isinstance(drawn, JudgeFailure) or isinstance(turned, JudgeFailure):
        return replace(showing, failures=tuple(one for one in (drawn, turned) if isinstance(one, JudgeFailure)))
    return replace(
        showing,
        right=(drawn.value.preferred is Place.FIRST) == showing.chosen_first,
        turned=(turned.value.preferred is Place.FIRST) != showing.chosen_first,
        rationales=(drawn.value.rationale, turned.value.rationale),
    )


def _texts(question: Question[Any], value: object) -> Spent:
    written = len(question.form.text(value).encode())
    return Spent(calls=1, prompt_tokens=tokens_in(question.size), completion_tokens=tokens_in(written))


def _pairs_of(shown: Sequence[PairAnswer]) -> Iterator[PreferencePair]:
    """Return each pair once."""
    return (showing.pair for showing in shown if showing.condition is Condition.OWN)


def _all_rules(pair: PreferencePair) -> bool:
    """Return True if no criterion is prose."""
    return all(parse_rule(criterion) is not None for criterion in pair.task.criteria)


def _rule_verdicts(pair: PreferencePair) -> list[CriterionVerdicts]:
    judge = RuleJudge(pair.task.criteria)
    return _verdicts(pair, judge.held(pair.chosen), judge.held(pair.rejected))


def _verdicts(pair: PreferencePair, chosen: Sequence[bool], rejected: Sequence[bool]) -> list[CriterionVerdicts]:
    return list(zip(pair.task.criteria, chosen, rejected, strict=True))
