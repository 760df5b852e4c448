"""Preference pairs put to a judge behind an endpoint: which calls, what came back, what it takes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinsmith.lab.judge.answers import Answered, Question, rating_question
from tinsmith.lab.judge.chat_judge import BlockingJudge
from tinsmith.lab.judge.preferences import Comparison, Place, Preference, preference_question
from tinsmith.lab.judge.prices import PriceTable, estimate_questions, estimate_spent, tokens_in
from tinsmith.lab.judge.prices import shown as dollars
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import RULES
from tinsmith.lab.judge.settings import ChatSettings
from tinsmith.lab.judge.verdicts import FailureCause, Judged, JudgeFailure, Spent
from tinsmith.studies.rubrics.quality.answers import (
    Answers,
    PairAnswer,
    Showing,
    all_rules,
    criterion_verdicts,
    pairs_of,
    require_rules,
    rule_verdicts,
    showings,
)
from tinsmith.studies.rubrics.quality.pairs import PairSet, builtin_pairs, drawn_pairs, foreign_rubrics, read_pairs
from tinsmith.studies.rubrics.quality.statistics import CriterionVerdicts
from tinsmith.types.errors import LostError
from tinsmith.types.fingerprints import sha256_of


def questions_of(shown: Sequence[Showing]) -> tuple[Question[Preference], ...]:
    """Return two calls for each showing: in the order that was drawn, then in the other."""
    return tuple(
        preference_question(
            Comparison(
                showing.pair.prompt,
                *showing.responses(turned=turned),
                () if showing.rubric is None else showing.rubric.task.criteria,
            )
        )
        for showing in shown
        for turned in (False, True)
    )


def ratings_of(shown: Sequence[Showing]) -> tuple[JudgeRequest, ...]:
    """Return two judgings for each pair whose rubric rules cannot judge: of its chosen and its rejected response."""
    return tuple(
        JudgeRequest(pair.prompt, response, pair.task.criteria)
        for pair in pairs_of(shown)
        if not all_rules(pair)
        for response in (pair.chosen, pair.rejected)
    )


def answered_by_chat(shown: Sequence[Showing], judge: BlockingJudge) -> Answers:
    """Put every showing to a judge behind an endpoint, in both orders; criteria in prose are rated by it as well."""
    questions = questions_of(shown)
    # A wrong key or model is told after two calls, not after thousands; one may be refused for what it says.
    first, last = judge.ask_all([questions[0], questions[-1]])
    if _refused(first) and _refused(last):
        raise _lost([first, last])
    found = [first, *judge.ask_all(questions[1:-1]), last]
    answers = tuple(_by_chat(showing, found[2 * i], found[2 * i + 1]) for i, showing in enumerate(shown))
    requests = ratings_of(shown)
    rated = judge.judge_all(requests)
    verdicts: list[CriterionVerdicts] = []
    unrated, places = 0, iter(rated)
    for pair in pairs_of(shown):
        if all_rules(pair):
            verdicts += rule_verdicts(pair)
            continue
        chosen, rejected = next(places), next(places)
        if isinstance(chosen, Judged) and isinstance(rejected, Judged):
            verdicts += criterion_verdicts(pair, chosen.verdicts, rejected.verdicts)
        else:
            unrated += 1
    everything = [*found, *rated]
    causes = Counter(one.cause for one in everything if isinstance(one, JudgeFailure))
    done = Answers(
        answers=answers,
        verdicts=tuple(verdicts),
        unrated=unrated,
        once=_once(questions, found, requests, rated),
        spent=sum((one.spent for one in everything), Spent()),
        from_cache=sum(not isinstance(one, JudgeFailure) and one.from_cache for one in everything),
        failures=tuple(sorted(causes.items())),
        left_out_fields=tuple(sorted(judge.left_out)),
    )
    if not done.judged:
        raise _lost(found)
    return done


def _refused(found: Answered[Preference] | JudgeFailure) -> bool:
    return isinstance(found, JudgeFailure) and found.cause is FailureCause.REFUSED


def _lost(found: Sequence[Answered[Preference] | JudgeFailure]) -> LostError:
    failure = next(one for one in found if isinstance(one, JudgeFailure))
    return LostError(
        f"the judge answered no pair completely: {failure.detail}",
        field="judge_model",
        value=str(failure.cause),
        fix="check judge_model, judge_base_url and the key, then repeat the command: answers are kept",
    )


def _by_chat(
    showing: Showing, drawn: Answered[Preference] | JudgeFailure, turned: Answered[Preference] | JudgeFailure
) -> PairAnswer:
    if isinstance(drawn, JudgeFailure) or isinstance(turned, JudgeFailure):
        failures = tuple(one for one in (drawn, turned) if isinstance(one, JudgeFailure))
        return PairAnswer(showing=showing, right=None, failures=failures)
    return PairAnswer(
        showing=showing,
        right=(drawn.value.preferred is Place.FIRST) == showing.chosen_first,
        turned=(turned.value.preferred is Place.FIRST) != showing.chosen_first,
        rationales=(drawn.value.rationale, turned.value.rationale),
    )


def _once(
    questions: Sequence[Question[Preference]],
    found: Sequence[Answered[Preference] | JudgeFailure],
    requests: Sequence[JudgeRequest],
    rated: Sequence[Judged | JudgeFailure],
) -> Spent:
    """Tokens of every call that got an answer, estimated from its texts; a provider's own count may differ."""
    total = Spent(estimated=True)
    for question, answer in zip(questions, found, strict=True):
        if isinstance(answer, Answered):
            total += _texts(question, answer.value)
    for request, judged in zip(requests, rated, strict=True):
        if isinstance(judged, Judged):
            total += _texts(rating_question(request), judged.verdicts)
    return total


def _texts(question: Question[Any], value: object) -> Spent:
    written = len(question.form.text(value).encode())
    return Spent(calls=1, prompt_tokens=tokens_in(question.prompt.size), completion_tokens=tokens_in(written))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Pairs that are judged, by whom, and what that costs."""

    source: PairSet
    file: str | None
    """Name of the file they are from; None: the built-in ones."""
    shown: tuple[Showing, ...]
    settings: Mapping[str, object]
    """All that decides the answers but for the judge's own mind."""
    sha256: str
    num_pairs: int
    seed: int
    chat: ChatSettings | None
    prices: PriceTable

    @property
    def judge(self) -> str:
        """The judge's name."""
        return RULES if self.chat is None else self.chat.judge_model

    def forecast(self) -> tuple[str, ...]:
        """Return what it takes: nothing retried, nothing found in the cache."""
        conditions = len(self.shown) // self.num_pairs
        first = f"{self.num_pairs} pairs under {conditions} conditions, judge {self.judge}"
        if self.chat is None:
            return (f"{first}: no call, no key, no network",)
        spent = estimate_questions(questions_of(self.shown))
        spent += estimate_spent(ratings_of(self.shown), response_tokens=0)
        return (
            f"{first}: {spent.calls:,} calls, both orders of each pair; about {spent.prompt_tokens:,} tokens read, "
            f"{spent.completion_tokens:,} written, {dollars(self.prices.dollars(self.judge, spent))}",
            "what is in the cache is not asked again",
        )


def drawn(file: Path | None, limit: int | None, seed: int, chat: ChatSettings | None, prices: PriceTable) -> Drawn:
    """Draw the pairs that are judged."""
    source = builtin_pairs() if file is None else read_pairs(file)
    pairs = drawn_pairs(source.pairs, limit, seed=seed)
    settings: dict[str, object] = {"judge_model": RULES, "seed": seed, "limit": limit}
    if chat is None:
        require_rules(pairs)
    else:
        settings |= {
            "judge_model": chat.judge_model,
            "judge_temperature": chat.judge_temperature,
            "judge_max_tokens": chat.judge_max_tokens or None,
            "judge_base_url": chat.judge_base_url or os.environ.get("OPENAI_BASE_URL"),
        }
    return Drawn(
        source=source,
        file=None if file is None else file.name,
        shown=showings(pairs, foreign_rubrics(pairs, seed=seed), seed=seed),
        settings=settings,
        sha256=sha256_of(pairs),
        num_pairs=len(pairs),
        seed=seed,
        chat=chat,
        prices=prices,
    )
