"""Criteria that carry a rule, `rule: ...`, read strictly; and judges by rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import Answered, Judged, JudgeFailure, Spent, Verdict
from tinsmith.lab.judge.rules.rule import Rule
from tinsmith.lab.judge.rules.text_rules import (
    Affix,
    Before,
    Beginnings,
    Contains,
    EveryPart,
    IsList,
    JsonKeys,
    Length,
    Looks,
    Matches,
    Names,
    VariedWords,
    WholeSentences,
    Written,
)
from tinsmith.types.errors import DataError

PREFIX: Final = "rule: "  # What a criterion begins with if it is a rule.

_RULES: Final[tuple[type[Rule], ...]] = (
    *(Contains, Before, Affix, Length, IsList, Looks, Written, JsonKeys),
    *(Names, VariedWords, WholeSentences, Beginnings, EveryPart, Matches),
)
FORMS: Final = (
    "[does not contain|contains] [word|exact] 'a' [at least N times]; word 'a' comes before word 'b'; "
    "starts|ends with 'a'; has at most N words|characters|sentences|lines; is a bullet|numbered list "
    "[of exactly N items]; has a heading; is in lower|upper case; is ascii; is written in latin letters; "
    "is json; is a json object with keys 'a', 'b'; names at least N of 'a', 'b' [and none of 'c']; "
    "has at most N words, none more than N times; is exactly N whole sentences; has at least N different words "
    "that start with 'a'; every line|sentence|word has at most N words|characters; matches 'pattern'"
)
"""The forms in short, for a person who wrote another."""


@lru_cache(maxsize=4096)
def parse_rule(criterion: str) -> Rule | None:
    """Return the rule that a criterion carries; None where it is no rule but prose.

    >>> parse_rule("rule: contains 'tin'").holds("Tinsmith")
    True
    """
    if not criterion.startswith(PREFIX):
        if criterion.lstrip()[:5].casefold() == PREFIX.strip():
            raise DataError(f"a rule begins with {PREFIX!r}", field="rule", value=criterion)
        return None
    for kind in _RULES:
        if (found := kind.read(criterion.removeprefix(PREFIX))) is not None:
            return found
    raise DataError("not a rule in one of the forms", field="rule", value=criterion, allowed=FORMS)


class RuleJudge:
    """Judges responses by rules alone: no model, no network, and nothing a response says can sway it."""

    def __init__(self, criteria: Sequence[str]) -> None:
        """Read every criterion once."""
        rules: list[Rule] = []
        for place, criterion in enumerate(criteria, 1):
            rule = parse_rule(criterion)
            if rule is None:
                what = "the rule judge cannot judge prose"
                fix = "write it as 'rule: ...', or name a model as judge_model"
                raise DataError(what, field=f"criterion {place}", value=criterion, fix=fix)
            rules.append(rule)
        self._rules = tuple(rules)
        self._texts = tuple(rule.text for rule in rules)

    def held(self, response: str) -> list[bool]:
        """Return whether each criterion holds, in order. Never raises."""
        return [rule.holds(response) for rule in self._rules]

    def hold(self, responses: Sequence[str]) -> list[list[bool]]:
        """Return for each criterion, in order, which responses it holds of. Never raises."""
        return [rule.hold(responses) for rule in self._rules]

    def judge(self, response: str) -> tuple[Verdict, ...]:
        """Return one verdict a criterion, in order. Never raises."""
        pairs = zip(self.held(response), self._texts, strict=True)
        return tuple(Verdict(held, f"{'holds' if held else 'fails'}: {text}") for held, text in pairs)


class Judge(Protocol):
    """A judge; `BlockingJudge` is one, `RulesOnly` another."""

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all; results in the order of the requests."""
        ...

    def close(self) -> None:
        """Let go of what is held open."""
        ...


class RulesOnly:
    """Judges by rules alone: no model, no key, no network, and nothing that a response says can sway it."""

    def __init__(self) -> None:
        self._judge = lru_cache(maxsize=None)(RuleJudge)

    def judge_all(self, requests: Sequence[JudgeRequest]) -> list[Judged | JudgeFailure]:
        """Judge all; nothing fails and nothing is spent."""
        return [
            Answered(value=self._judge(one.criteria).judge(one.response), spent=Spent(), from_cache=False)
            for one in requests
        ]

    def close(self) -> None:
        """Do nothing: rules hold no connection."""
