"""Judge as a reward: criteria of an item, and verdicts on an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import Answered, JudgeFailure, Spent
from tinsmith.lab.judge.rules import Judge, Outcome, RulesOnly
from tinsmith.lab.judge.tree import pass_rate
from tinsmith.lab.user_task.calls import Raised, attempt
from tinsmith.lab.user_task.step_reward import Conversation, Failed, Groups, Scored, StepReward
from tinsmith.types.errors import DataError

JUDGE, SCORE = "judge", "score"  # Places of failure of an answer: without verdicts, and with them.
Paid = Callable[[Mapping[str, int], Spent], None]
"""Callback for the numbers of judged, failed and cached answers, and their costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedReward(StepReward):
    """Reward by criteria; create it with `judged`. A run opens its judge as in `judge_model=`, and closes it."""

    criteria: Callable[[Any], Sequence[str]]
    prompt: Callable[[Any], str]
    score: Callable[[Any, Sequence[bool]], float] | None  # None: the pass rate.
    rules: Judge
    judge: Judge | None = None  # As a run opened it; None: none did, and rules judge.
    paid: Paid | None = None  # Receives every call of the judge; None: nobody does.

    terms: ClassVar[tuple[str, ...]] = ("rubric",)

    def opened(self, judge: Judge, paid: Paid) -> JudgedReward:
        """Return the reward with a judge."""
        return replace(self, judge=judge, paid=paid)

    def __call__(self, answers: Sequence[Conversation]) -> list[Scored | Failed]:
        """Have every answer judged."""
        requests = [
            JudgeRequest(task=self.prompt(one.item), response=one.text, criteria=listed(self.criteria(one.item)))
            for one in answers
        ]
        judge = self.judge or self.rules
        try:
            verdicts = judge.judge_all(requests)
        except BaseException:
            if self.paid is not None and (spent := getattr(judge, "spent", Spent())).calls:
                self.paid({}, spent)  # No answer was used; those that came are free in the next sitting.
            raise
        failures = [one for one in verdicts if isinstance(one, JudgeFailure)]
        if self.paid is not None:
            from_cache = sum(isinstance(one, Answered) and one.from_cache for one in verdicts)
            counts = {"judged": len(verdicts) - len(failures), "failed": len(failures), "from_cache": from_cache}
            self.paid(counts, sum((one.spent for one in verdicts if not isinstance(one, Failed)), Spent()))
        if verdicts and len(failures) == len(verdicts):
            raise failures[0].error()
        return [self._scored(one, judged) for one, judged in zip(answers, verdicts, strict=True)]

    def _scored(self, conversation: Conversation, judged: Outcome) -> Scored | Failed:
        if isinstance(judged, Failed):
            return judged
        if isinstance(judged, JudgeFailure):
            return Failed(JUDGE, f"{judged.cause}: {judged.detail}")
        passed = [verdict.passed for verdict in judged.value]
        score = pass_rate(passed) if self.score is None else attempt(self.score, conversation.item, passed)
        if isinstance(score, Raised):
            return Failed(SCORE, str(score))
        verdicts = [{"passed": one.passed, "rationale": one.rationale} for one in judged.value]
        return Scored(terms={"rubric": score}, record={"pass_rate": pass_rate(passed), "verdicts": verdicts})

    def line(self, scored: Scored) -> Mapping[str, object]:
        """Return the verdicts, and the score where it is not the pass rate."""
        return dict(scored.record) if self.score is None else super(JudgedReward, self).line(scored)

    def figures(self, groups: Groups) -> dict[str, float]:
        """Return pass rate, score, and share of judge failures; an item with several answers counts once."""
        by_item = [[one for one in group if isinstance(one, Scored)] for group in groups]
        judged = [group for group in by_item if group]
        return {
            "pass_rate": fmean([fmean([_rate(one) for one in group]) for group in judged]),
            "score": fmean([fmean([one.terms["rubric"] for one in group]) for group in judged]),
            "all_passed": fmean([fmean([float(_rate(one) == 1.0) for one in group]) for group in judged]),
            "judge_failed": _judge_failed(groups),
        }

    def train_figures(self, groups: Groups) -> dict[str, float]:
        """Return the share of judge failures, and the pass rate of the other answers."""
        found = {"judge_failed": _judge_failed(groups)}
        rates = [_rate(one) for group in groups for one in group if isinstance(one, Scored)]
        return {**found, "pass_rate": fmean(rates)} if rates else found

    def close(self) -> None:
        """Close the judge."""
        if self.judge is not None:
            self.judge.close()


def judged(
    criteria: Callable[[Any], Sequence[str]],
    prompt: Callable[[Any], str],
    score: Callable[[Any, Sequence[bool]], float] | None = None,
    rules: Judge | None = None,
) -> JudgedReward:
    """Return the reward of the criteria that a judge finds fulfilled; its task has the keys `judge_*`.

    Args:
        criteria: of an item, in order: prose for a judge that reads it, or rules such as `rule: has at most 12 words`.
        prompt: of an item, as the judge is to see it.
        score: what an answer earns that fulfils these criteria of its item; None: the share that it fulfils.
        rules: who judges where `judge_model=rules`; None: the rules that stand in the criteria.
    """
    return JudgedReward(criteria=criteria, prompt=prompt, score=score, rules=rules or RulesOnly())


def listed(criteria: object) -> tuple[str, ...]:
    """Return an item's criteria; DataError where they are no list, as a text is none, of texts."""
    found = () if isinstance(criteria, str) or not isinstance(criteria, Iterable) else tuple(criteria)
    if not found or not all(isinstance(one, str) for one in found):
        what, allowed = "an item's criteria must be a list", "one text or more in a list, such as ['is polite']"
        raise DataError(what, field="criteria", value=criteria, allowed=allowed)
    return found


def _rate(scored: Scored) -> float:
    rate = scored.record["pass_rate"]
    assert isinstance(rate, float)
    return rate


def _judge_failed(groups: Groups) -> float:
    every = [one for group in groups for one in group]
    return sum(isinstance(one, Failed) and one.where == JUDGE for one in every) / len(every) if every else 0.0
