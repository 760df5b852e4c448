"""How a criterion carries a rule: the grammar of `rule: ...`, read strictly, and the judge by rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tinsmith.lab.judge.text_measures import Script
from tinsmith.studies.rubrics.rules.rule import AT_LEAST_ONE, NONE_AT_ALL, Bound, Rule
from tinsmith.studies.rubrics.rules.shape_rules import (
    IsList,
    JsonKeys,
    Length,
    ListKind,
    Look,
    Looks,
    Unit,
    Written,
)
from tinsmith.studies.rubrics.rules.topic_rules import (
    Beginnings,
    EveryPart,
    Names,
    Part,
    VariedWords,
    WholeSentences,
)
from tinsmith.studies.rubrics.rules.word_rules import Affix, Before, Contains, Edge, Match, Matches
from tinsmith.types.errors import DataError

PREFIX: Final = "rule: "
"""What a criterion begins with if it is a rule."""

_TEXT = r"'(?:[^']|'')+'"
_TEXTS = rf"{_TEXT}(?:, {_TEXT})*"
_N = r"(?:0|[1-9][0-9]{0,5})"
_BOUND = rf"exactly {_N}|at least {_N}|at most {_N}|between {_N} and {_N}"
_Builder = Callable[[re.Match[str]], Rule]


def _plain(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _bound(text: str) -> Bound:
    numbers = [int(number) for number in re.findall(_N, text)]
    if text.startswith("between"):
        if numbers[0] >= numbers[1]:
            raise DataError("between runs from a smaller to a larger number", field="rule")
        return Bound(least=numbers[0], most=numbers[1])
    if text.startswith("exactly"):
        return Bound(least=numbers[0], most=numbers[0])
    if text.startswith("at least"):
        return Bound(least=numbers[0])
    return Bound(most=numbers[0])


def _contains(found: re.Match[str]) -> Rule:
    times = AT_LEAST_ONE if found["times"] is None else _bound(found["times"])
    return Contains(_plain(found["text"]), Match(found["kind"] or "text"), times)


def _lacks(found: re.Match[str]) -> Rule:
    return Contains(_plain(found["text"]), Match(found["kind"] or "text"), NONE_AT_ALL)


def _list(found: re.Match[str]) -> Rule:
    items = AT_LEAST_ONE if found["items"] is None else _bound(found["items"])
    return IsList(ListKind(found["kind"]), items)


def _plains(text: str) -> tuple[str, ...]:
    return tuple(map(_plain, re.findall(_TEXT, text)))


def _keys(found: re.Match[str]) -> Rule:
    return JsonKeys(_plains(found["keys"]))


def _names(found: re.Match[str]) -> Rule:
    return Names(_plains(found["of"]), _bound(found["bound"]), _plains(found["unsaid"] or ""))


def _every(found: re.Match[str]) -> Rule:
    return EveryPart(Part(found["part"]), Unit(found["unit"]), _bound(found["bound"]))


def _options(values: Sequence[str]) -> str:
    return "|".join(map(re.escape, values))


_KIND = r"(?:(?P<kind>word|exact) )?"
_PATTERNS: Final[tuple[tuple[str, _Builder], ...]] = (
    (rf"contains {_KIND}(?P<text>{_TEXT})(?: (?P<times>{_BOUND}) times)?", _contains),
    (rf"does not contain {_KIND}(?P<text>{_TEXT})", _lacks),
    (
        rf"word (?P<first>{_TEXT}) comes before word (?P<second>{_TEXT})",
        lambda found: Before(_plain(found["first"]), _plain(found["second"])),
    ),
    (
        rf"(?P<edge>{_options(tuple(Edge))}) (?P<text>{_TEXT})",
        lambda found: Affix(Edge(found["edge"]), _plain(found["text"])),
    ),
    (
        rf"has (?P<bound>{_BOUND}) (?P<unit>{_options(tuple(Unit))})",
        lambda found: Length(Unit(found["unit"]), _bound(found["bound"])),
    ),
    (
        rf"is a (?P<kind>{_options(tuple(ListKind))}) list(?: of (?P<items>{_BOUND}) items)?",
        _list,
    ),
    (rf"(?P<look>{_options(tuple(Look))})", lambda found: Looks(Look(found["look"]))),
    (
        rf"is written in (?P<script>{_options(tuple(Script))}) letters",
        lambda found: Written(Script(found["script"])),
    ),
    (rf"is a json object with keys (?P<keys>{_TEXTS})", _keys),
    (
        rf"names (?P<bound>{_BOUND}) of (?P<of>{_TEXTS})(?: and none of (?P<unsaid>{_TEXTS}))?",
        _names,
    ),
    (
        rf"has (?P<bound>{_BOUND}) words, none more than (?P<most>{_N}) times",
        lambda found: VariedWords(_bound(found["bound"]), int(found["most"])),
    ),
    (
        rf"is (?P<bound>{_BOUND}) whole sentences",
        lambda found: WholeSentences(_bound(found["bound"])),
    ),
    (
        rf"has (?P<bound>{_BOUND}) different words that start with (?P<text>{_TEXT})",
        lambda found: Beginnings(_plain(found["text"]), _bound(found["bound"])),
    ),
    (
        rf"every (?P<part>{_options(tuple(Part))}) has (?P<bound>{_BOUND}) (?P<unit>{_options(tuple(Unit))})",
        _every,
    ),
    (rf"matches (?P<text>{_TEXT})", lambda found: Matches(_plain(found["text"]))),
)
_FORMS: Final = tuple((re.compile(pattern, re.DOTALL), build) for pattern, build in _PATTERNS)
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

    Raises:
        DataError: it begins with `rule:` and is not exactly one of the forms.

    >>> parse_rule("rule: contains 'tin'").holds("Tinsmith")
    True
    """
    if not criterion.startswith(PREFIX):
        if criterion.lstrip()[:5].casefold() == PREFIX.strip():
            raise DataError(f"a rule begins with {PREFIX!r}", field="rule", value=criterion)
        return None
    body = criterion[len(PREFIX) :]
    for form, build in _FORMS:
        if (found := form.fullmatch(body)) is not None:
            return build(found)
    raise DataError("no such rule", field="rule", value=criterion, allowed=FORMS)


def criterion_of(rule: Rule) -> str:
    """Return the criterion that carries a rule."""
    return PREFIX + rule.text


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """What a rule says of a response."""

    passed: bool
    rationale: str


class RuleJudge:
    """Judges responses by rules alone: no model, no network, and nothing a response says can sway it."""

    def __init__(self, criteria: Sequence[str]) -> None:
        """Read every criterion once.

        Raises:
            DataError: a criterion is prose, or a rule that cannot be read; `field` is its place.
        """
        rules: list[Rule] = []
        for place, criterion in enumerate(criteria, 1):
            rule = parse_rule(criterion)
            if rule is None:
                raise DataError(
                    "the rule judge cannot judge prose",
                    field=f"criterion {place}",
                    value=criterion,
                    fix="write it as 'rule: ...', or name a model as judge_model",
                )
            rules.append(rule)
        self._rules = tuple(rules)

    def judge(self, response: str) -> tuple[RuleVerdict, ...]:
        """Return one verdict a criterion, in order. Never raises."""
        return tuple(_verdict(rule, rule.holds(response)) for rule in self._rules)


def _verdict(rule: Rule, passed: bool) -> RuleVerdict:
    return RuleVerdict(passed=passed, rationale=f"{'holds' if passed else 'fails'}: {rule.text}")
