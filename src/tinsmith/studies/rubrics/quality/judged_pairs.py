"""Preference pairs, the answers of judges to them, and accuracies with and without a rubric, with an exact test.

The same pairs are judged without a rubric, with their own, and with another pair's: the negative control. Only pairs
with an answer under every condition count. Where several pairs share a prompt, the prompt is the unit of the tests,
since its pairs are no independent evidence.

A judge that cannot read goes by the surface: who repeats more of the instruction's words is better, of equals who has
more words, of equals who has more characters. That is how a judge goes wrong that takes fluency and length for quality.
Given a rubric of rules, it counts which response passes more of it (or scores the rubric's tree), and falls back on the
surface only where that is equal. Another judge is a model behind an endpoint.
Source: rubric quality as the gain of a weak judge's accuracy, EvoLM, arXiv:2605.03871.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tinsmith.lab.judge.prompting import (
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
from tinsmith.lab.judge.tree import is_text
from tinsmith.stats.intervals import wilson
from tinsmith.stats.significance import (
    ALPHA,
    clustered_interval,
    items_needed,
    least_moved,
    mcnemar,
    paired_interval,
    sign_flip_p,
)
from tinsmith.studies.rubrics.dataset import RubricTask, checked_file, decode, gathered, read_records, task_of
from tinsmith.types.errors import DataError, LostError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

if TYPE_CHECKING:
    from tinsmith.lab.judge.chat_judge import BlockingJudge

BUILTIN: Final = "builtin_pairs.jsonl"
PairSet = tuple[tuple["PreferencePair", ...], int]  # By id, and how many were left out for want of a rubric.
ENDINGS: Final = (".jsonl", ".ndjson", ".json")
Scores = tuple[float, float]  # Of two responses, by a rubric.


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferencePair:
    """Two responses to one instruction, of which the first is known to be better, and the instruction's rubric."""

    pair_id: str
    task: RubricTask  # The instruction and its rubrics; its `task_id` is the pair's.
    chosen: str
    rejected: str

    @property
    def prompt(self) -> str:
        """The instruction."""
        return self.task.prompt


class Condition(enum.StrEnum):
    """Rubric that the judge sees beside the two responses; another pair's is the negative control."""

    WITHOUT = "without"
    OWN = "own"
    OTHER = "other"


class Ground(enum.StrEnum):
    """Ground of a choice between two responses; the place, where nothing else parts them: the first is taken."""

    RUBRIC = "rubric"
    SURFACE = "surface"
    PLACE = "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer:
    """A pair under one condition, and the judge's preference there, once it is asked."""

    pair: PreferencePair
    condition: Condition
    rubric: PreferencePair | None = None  # The pair whose rubric is shown.
    chosen_first: bool = True
    right: bool | None = None
    """It preferred the chosen response, in the order that was drawn; None where an answer is missing."""
    turned: bool | None = None  # The same in the other order, where the judge was asked in both.
    ground: Ground | None = None
    scores: Scores | None = None
    """The rubric's scores of the chosen and the rejected response, where rules gave them."""
    rationales: tuple[str, ...] = ()
    failures: tuple[JudgeFailure, ...] = ()

    def responses(self, *, turned: bool = False) -> tuple[str, str]:
        """Return the two responses in the order they are shown."""
        both = (self.pair.chosen, self.pair.rejected)
        return both if self.chosen_first != turned else (both[1], both[0])


def pair_of(record: Mapping[str, object]) -> PreferencePair | None:
    """Return the pair of one record; None where it has no rubric at all.

    The rubrics stand in any form that a rubric task may have. A record without `pair_id` is named by a
    hash of its content.
    """
    chosen, rejected = (_response(record, name) for name in ("chosen", "rejected"))
    if chosen == rejected:
        raise DataError("the two responses are the same", field="rejected", value=rejected)
    pair_id = record.get("pair_id")
    task = task_of({**record, "task_id": pair_id})
    if task is None:
        return None
    if pair_id is None or pair_id == "":
        task = replace(task, task_id=sha256_of((task.prompt, chosen, rejected, task.rubrics))[:16])
    return PreferencePair(pair_id=task.task_id, task=task, chosen=chosen, rejected=rejected)


def read_pairs(path: Path) -> PairSet:
    """Read a file of preference pairs: JSON Lines, or one JSON array."""
    checked_file(path, ENDINGS)
    return read_pairs_text(path.read_bytes(), path.name)


def builtin_pairs() -> PairSet:
    """Return the pairs that need no download: a worked answer against one that breaks one or two of its rules.

    There is one for each built-in instruction, so that no two pairs hang together. In half of every kind the worse
    answer is the tempting one: who does not look at the rules is right about half the time.
    """
    folder = resources.files("tinsmith.studies.rubrics.quality")
    return read_pairs_text(folder.joinpath(BUILTIN).read_bytes(), BUILTIN)


def read_pairs_text(data: bytes, name: str) -> PairSet:
    """Read the bytes of a file of pairs; `name` is how errors call it."""
    fix = "give each record prompt, chosen, rejected, and rubrics or 'rubric - 1. criterion'"
    records, _ = read_records(decode(data, name), name)
    pairs, without = gathered(records, pair_of, name=name, what="pair", fix=fix)
    return tuple(pair for _, pair in sorted(pairs.items())), without


def drawn_pairs(pairs: Sequence[PreferencePair], limit: int | None, *, seed: int) -> tuple[PreferencePair, ...]:
    """Return at most so many pairs, drawn by id and seed, in the order of their ids."""
    drawn = sorted(pairs, key=lambda pair: (derive(seed, "pairs", pair.pair_id), pair.pair_id))
    return tuple(sorted(drawn[:limit], key=lambda pair: pair.pair_id))


def foreign_rubrics(pairs: Sequence[PreferencePair], *, seed: int) -> tuple[PreferencePair | None, ...]:
    """Return, for each pair, the pair whose rubric is shown instead of its own: the negative control.

    The pairs stand in a circle in the order of the seed; each gets the rubric of the next one that has
    another instruction and other criteria. None where there is no such pair.
    """
    circle = sorted(pairs, key=lambda pair: (derive(seed, "control", pair.pair_id), pair.pair_id))
    found: dict[str, PreferencePair | None] = {}
    for place, pair in enumerate(circle):
        others = (*circle[place + 1 :], *circle[:place])
        is_foreign = (one.prompt != pair.prompt and {*one.task.criteria} != {*pair.task.criteria} for one in others)
        found[pair.pair_id] = next((one for one, fits in zip(others, is_foreign, strict=True) if fits), None)
    return tuple(found[pair.pair_id] for pair in pairs)


def showings(pairs: Sequence[PreferencePair], *, seed: int) -> tuple[PairAnswer, ...]:
    """Return every pair under every condition; the order of the responses is the pair's, drawn by the seed.

    Where one pair has no other's rubric, the control is left out for all.
    """
    foreign = foreign_rubrics(pairs, seed=seed)
    return tuple(
        PairAnswer(
            pair=pair, condition=condition, rubric=rubric, chosen_first=derive(seed, "order", pair.pair_id) % 2 == 0
        )
        for pair, other in zip(pairs, foreign, strict=True)
        for condition, rubric in zip(Condition, (None, pair, other), strict=True)
        if condition is not Condition.OTHER or None not in foreign
    )


def _response(record: Mapping[str, object], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not is_text(value):
        raise DataError("a pair needs both responses as texts", field=name, value=value)
    return value


CriterionVerdicts = tuple[str, bool, bool]
"""A criterion, and its verdicts on the chosen and on the rejected response of one pair."""
Reply = Answered[Preference] | JudgeFailure


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
            one.pair.prompt, *one.responses(turned=turned), one.rubric.task.criteria if one.rubric else ()
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


def answered_by_chat(pairs: Sequence[PairAnswer], judge: BlockingJudge) -> Answers:
    """Put every showing to a judge behind an endpoint, in both orders; criteria in prose are rated by it as well."""
    questions = questions_of(pairs)
    # A wrong key or model is told after two calls, not after thousands; one may be refused for what it says.
    first, last = judge.ask_all([questions[0], questions[-1]])
    if all(isinstance(one, JudgeFailure) and one.cause is FailureCause.REFUSED for one in (first, last)):
        raise _lost([first, last])
    answers = [first, *judge.ask_all(questions[1:-1]), last]
    done = tuple(_by_chat(one, *answers[2 * i : 2 * i + 2]) for i, one in enumerate(pairs))
    complete = {one[Condition.OWN].pair.pair_id for one in complete_pairs(done)}
    requests = ratings_of(pairs)
    rated = judge.judge_all(requests)
    verdicts: list[CriterionVerdicts] = []
    unrated, places = 0, iter(rated)
    for pair in _pairs_of(pairs):
        if _all_rules(pair):
            verdicts += _rule_verdicts(pair) if pair.pair_id in complete else []
            continue
        chosen, rejected = next(places), next(places)
        if pair.pair_id not in complete:
            continue
        if isinstance(chosen, Answered) and isinstance(rejected, Answered):
            verdicts += _verdicts(pair, *([each.passed for each in one.value] for one in (chosen, rejected)))
        else:
            unrated += 1
    calls: list[tuple[Question[Any], Answered[Any] | JudgeFailure]] = [
        *zip(questions, answers, strict=True),
        *zip(map(rating_question, requests), rated, strict=True),
    ]
    once = Spent(estimated=True)  # from the texts of every call that got an answer; a provider may count otherwise
    for question, one in calls:
        if isinstance(one, Answered):
            written = tokens_in(len(question.form.text(one.value).encode()))
            once += Spent(calls=1, prompt_tokens=tokens_in(question.size), completion_tokens=written)
    if not complete:
        raise _lost(answers)
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


def _pairs_of(shown: Sequence[PairAnswer]) -> Iterator[PreferencePair]:
    return (showing.pair for showing in shown if showing.condition is Condition.OWN)


def _all_rules(pair: PreferencePair) -> bool:
    return all(parse_rule(criterion) is not None for criterion in pair.task.criteria)


def _rule_verdicts(pair: PreferencePair) -> list[CriterionVerdicts]:
    judge = RuleJudge(pair.task.criteria)
    return _verdicts(pair, judge.held(pair.chosen), judge.held(pair.rejected))


def _verdicts(pair: PreferencePair, chosen: Sequence[bool], rejected: Sequence[bool]) -> list[CriterionVerdicts]:
    return list(zip(pair.task.criteria, chosen, rejected, strict=True))


Figures = dict[str, Any]  # As `quality.json` has them.


class Finding(enum.StrEnum):
    """Finding of a paired comparison."""

    ADDS = "adds"
    TAKES = "takes away"
    CANNOT_TELL = "inconclusive"


Judged = Sequence[Mapping[Condition, PairAnswer]]
"""The answers to every pair, by condition; all are there."""


def complete_pairs(answers: Iterable[PairAnswer]) -> Judged:
    """Return the pairs that have every answer."""
    by_pair: dict[str, dict[Condition, PairAnswer]] = {}
    for one in answers:
        by_pair.setdefault(one.pair.pair_id, {})[one.condition] = one
    return [one for one in by_pair.values() if all(each.right is not None for each in one.values())]


def rubric_quality(judged: Judged, verdicts: Iterable[CriterionVerdicts], *, seed: int) -> Figures:
    """Compute what a rubric adds: the gain, with its own rubric minus without, is named before any answer."""
    if not judged:
        raise DataError("no pair was judged under every condition", field="pairs", value=0)
    conditions = list(judged[0])
    prompts = len({pair[Condition.OWN].pair.prompt for pair in judged})
    unit = "pair" if prompts == len(judged) else "prompt"
    without, own, other = Condition

    def contrast(first: Condition, second: Condition) -> Figures | None:
        return compare(judged, first, second, unit=unit, seed=seed) if {first, second} <= set(conditions) else None

    criteria = discrimination(verdicts)
    return {
        "pairs": len(judged),
        "prompts": prompts,
        "unit": unit,
        "accuracies": [_accuracy([pair[condition] for pair in judged]) for condition in conditions],
        "gain": contrast(own, without),
        "control": contrast(other, without),
        "beyond_control": contrast(own, other),
        "criteria": criteria,
        "idle_criteria": [one["criterion"] for one in criteria if not one["for_chosen"] + one["for_rejected"]],
    }


def compare(judged: Judged, first: Condition, second: Condition, *, unit: str, seed: int) -> Figures:
    """Compare two conditions on the same pairs.

    Helped are pairs that only the first has right, hurt those that only the second has; moved are units that are not
    the same under both: `enough` where so many moved that the test could show something. The exact two-sided p is
    McNemar's, or of sign flips by prompt. Needed are units like these that would show this gain four times out of five.
    """
    alone = unit == "pair"
    changes: dict[str, list[int]] = {}
    for pair in judged:
        one, other = pair[first], pair[second]
        key = one.pair.pair_id if alone else one.pair.prompt
        changes.setdefault(key, []).append(bool(one.right) - bool(other.right))
    groups = [found for _, found in sorted(changes.items())]
    every, net = [change for found in groups for change in found], [sum(found) for found in groups]
    helped, hurt = every.count(1), every.count(-1)
    moved, p_value = sum(each != 0 for each in net), sign_flip_p(net)
    finding = Finding.CANNOT_TELL if p_value > ALPHA else Finding.ADDS if helped > hurt else Finding.TAKES
    sizes = [len(found) for found in groups]
    interval = paired_interval(helped, hurt, len(judged)) if alone else clustered_interval(net, sizes, seed=seed)
    return {
        "first": first,
        "second": second,
        "gain": (helped - hurt) / len(judged),
        "interval": asdict(interval),
        "helped": helped,
        "hurt": hurt,
        "unit": unit,
        "units": len(net),
        "moved": moved,
        "p_value": p_value,
        "finding": finding,
        "enough": moved >= least_moved(ALPHA),
        "needed": _needed(net, moved) if finding is Finding.CANNOT_TELL else None,
    }


def discrimination(verdicts: Iterable[CriterionVerdicts]) -> list[Figures]:
    """Count how often each criterion holds for one response alone, in the order of their texts."""
    found: dict[str, list[int]] = {}
    for criterion, chosen, rejected in verdicts:
        found.setdefault(criterion, []).append(chosen - rejected)
    return [
        {"criterion": name, "pairs": len(by), "for_chosen": by.count(1), "for_rejected": by.count(-1)}
        for name, by in sorted(found.items())
    ]


def _accuracy(answers: Sequence[PairAnswer]) -> Figures:
    right = sum(one.right is True for one in answers)
    return {
        "condition": answers[0].condition,
        "value": right / len(answers),
        "right": right,
        "n": len(answers),
        "interval": asdict(wilson(right, len(answers))),
        "positions": None if any(one.turned is None for one in answers) else _positions(answers),
    }


def _positions(answers: Sequence[PairAnswer]) -> Figures:
    """Return the effect of the place of a response, where each pair was asked in both orders; p by McNemar's test."""
    # Right with the better one first and wrong with it second, or the reverse: the first was taken both times.
    unlike = Counter(one.right == one.chosen_first for one in answers if one.right != one.turned)
    first, second = unlike[True], unlike[False]
    same = len(answers) - first - second
    return {
        "pairs": len(answers),
        "same": same,
        "always_first": first,
        "always_second": second,
        "right_both": sum(one.right is one.turned is True for one in answers),
        "p_value": mcnemar(first, second).p_value,
        "first_share": (same + 2 * first) / (2 * len(answers)),
    }


def _needed(net: Sequence[int], moved: int) -> int | None:
    """Units that a gain of this size takes, at power 0.8, and enough of them to move; None where there is no gain."""
    total = sum(net)
    if total == 0:
        return None
    # Both scaled by the largest net, which cancels: only their ratio counts.
    largest = max(abs(each) for each in net)
    effect = total / len(net) / largest
    discordance = sum(each * each for each in net) / len(net) / largest**2
    by_power = items_needed(effect, discordance=discordance, alpha=ALPHA)
    by_count = math.ceil(least_moved(ALPHA) * len(net) / moved)
    return max(by_power, by_count, len(net) + 1)
