"""Rules about a response, its length, form, words, patterns and topic; criteria that carry one; and judges by rules.

A criterion carries a rule behind `rule: `, in one of the forms that the functions of this module are registered under.
Texts are compared without regard to case unless a rule says so; words are those of `text_measures.words_of`.
Every rule holds or does not for any text whatever, without raising.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import signature
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeVar, get_args, get_origin, get_type_hints

from tinsmith.lab.environment import Failed
from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import Answered, Judged, JudgeFailure, Spent, Verdict
from tinsmith.lab.judge.text_measures import (
    Script,
    bullets_of,
    has_heading,
    lines_of,
    numbered_of,
    only_script,
    sentences_of,
    words_of,
)
from tinsmith.lab.strict_json import JsonObject, JsonValue, NotJsonError, read_json
from tinsmith.types.errors import DataError

PREFIX: Final = "rule: "  # What a criterion begins with if it is a rule.
FORMS: Final = (
    "[does not contain|contains] [word|exact] 'a' [at least N times]; word 'a' comes before word 'b'; "
    "starts|ends with 'a'; has at most N words|characters|sentences|lines; is a bullet|numbered list "
    "[of exactly N items]; has a heading; is in lower|upper case; is ascii; is written in latin letters; "
    "is json; is a json object with keys 'a', 'b'; names at least N of 'a', 'b' [and none of 'c']; "
    "has at most N words, none more than N times; is exactly N whole sentences; has at least N different words "
    "that start with 'a'; every line|sentence|word has at most N words|characters; matches 'pattern'"
)
"""The forms in short, for a person who wrote another."""

Bound = Callable[[int], bool]
"""True for a count that is within: `exactly 3`, `at least 3`, `at most 3`, `between 3 and 5`."""
Holds = Callable[[str], bool]
"""True for a response that obeys; total, and a function of the text alone."""
Hold = Callable[[Sequence[str]], list[bool]]
"""The same for several responses, in order."""
_Maker = Callable[..., Holds] | Callable[..., Hold]
F = TypeVar("F", bound=_Maker)

_TEXT: Final = r"'(?:[^']|'')+'"
_N: Final = r"(?:0|[1-9][0-9]{0,5})"
_PLACE: Final = re.compile(r"(\[)?([^\[\]{}]*)\{(\w+)\}([^\[\]{}]*)\]?")
_MAKERS: Final[list[tuple[str, _Maker, bool]]] = []


def _texts(quoted: str) -> tuple[str, ...]:
    return tuple(one[1:-1].replace("''", "'") for one in re.findall(_TEXT, quoted))


def _bound(text: str) -> Bound:
    first, *more = [int(number) for number in re.findall(_N, text)]
    if more and first >= more[0]:
        raise DataError("between runs from a smaller to a larger number", field="rule")
    least = 0 if text.startswith("at most") else first
    most = more[0] if more else math.inf if text.startswith("at least") else first
    return lambda count: least <= count <= most


_AT_LEAST_ONE: Final = _bound("at least 1")
_ARGUMENTS: Final[Mapping[object, tuple[str, Callable[[str], object]]]] = MappingProxyType(
    {
        str: (_TEXT, lambda quoted: _texts(quoted)[0]),
        tuple[str, ...]: (rf"{_TEXT}(?:, {_TEXT})*", _texts),
        int: (_N, int),
        Bound: (rf"exactly {_N}|at least {_N}|at most {_N}|between {_N} and {_N}", _bound),
    }
)
"""Form of an argument of a rule, and the reader of that, by its type."""


def _rule(form: str, *, at_once: bool = False) -> Callable[[F], F]:
    """Register a function that makes a rule of its arguments.

    {name} stands for an argument, and [...] is left out where the argument in it has its default. `at_once`: what it
    makes reads several responses.
    """

    def register(make: F) -> F:
        _MAKERS.append((form, make, at_once))
        return make

    return register


@cache
def _patterns() -> list[tuple[re.Pattern[str], Mapping[str, Callable[[str], object]], _Maker, bool]]:
    """Return every form as a pattern, with the readers of its arguments."""

    def compiled(form: str, make: _Maker) -> tuple[re.Pattern[str], Mapping[str, Callable[[str], object]]]:
        hints, readers = get_type_hints(make), dict[str, Callable[[str], object]]()

        def pattern(place: re.Match[str]) -> str:
            optional, before, name, after = place.groups()
            if get_origin(hints[name]) is Literal:
                default = signature(make).parameters[name].default
                words, readers[name] = "|".join(one for one in get_args(hints[name]) if one != default), str
            else:
                words, readers[name] = _ARGUMENTS[hints[name]]
            whole = f"{before}(?P<{name}>{words}){after}"
            return f"(?:{whole})?" if optional else whole

        return re.compile(_PLACE.sub(pattern, form), re.DOTALL), readers

    return [(*compiled(form, make), make, at_once) for form, make, at_once in _MAKERS]


Unit = Literal["words", "characters", "sentences", "lines"]
"""Unit of a length; space around a response, and blank lines, do not count."""
_PIECES: Final[Mapping[str, Callable[[str], Sequence[str]]]] = MappingProxyType(
    {"words": words_of, "characters": str.strip, "sentences": sentences_of, "lines": lines_of}
)


@_rule("has {bound} {unit}")
def _length(bound: Bound, unit: Unit) -> Holds:
    return lambda response: bound(len(_PIECES[unit](response)))


@_rule("is a {kind} list[ of {items} items]")
def _list(kind: Literal["bullet", "numbered"], items: Bound = _AT_LEAST_ONE) -> Holds:
    """The response is a list and nothing else."""
    count_in = bullets_of if kind == "bullet" else numbered_of
    return lambda response: (count := count_in(response)) is not None and items(count)


def _json(response: str) -> tuple[JsonValue] | None:
    try:
        return (read_json(response.strip()),)
    except NotJsonError:
        return None


_LOOKS: Final[Mapping[str, Holds]] = MappingProxyType(
    {
        "has a heading": has_heading,
        "is in lower case": str.islower,
        "is in upper case": str.isupper,
        "is ascii": lambda response: response.isascii() and any(map(str.isalpha, response)),
        "is json": lambda response: _json(response) is not None,
    }
)
"""Properties that need no count; case and ascii need a letter, because no text has no case."""


@_rule("is written in {script} letters")
def _written(script: Script) -> Holds:
    return lambda response: only_script(response, script)


@_rule("is a json object with keys {keys}")
def _json_keys(keys: tuple[str, ...]) -> Holds:
    """It has each of these keys once; others may be there."""
    if len(set(keys)) < len(keys):
        raise DataError("keys are texts that differ", field="keys", value=keys)

    def holds(response: str) -> bool:
        (value,) = _json(response) or (None,)
        return isinstance(value, JsonObject) and all(value.keys.count(key) == 1 for key in keys)

    return holds


_Match = Literal["text", "word", "exact"]
"""Way to look for a text: anywhere, whatever the case; as whole words, whatever the case; anywhere, case and all."""


@_rule("contains [{match} ]{wanted}[ {times} times]")
def _contains(wanted: str, match: _Match = "text", times: Bound = _AT_LEAST_ONE) -> Holds:
    """A text occurs, so and so often, occurrences not overlapping."""
    if match == "word" and not words_of(wanted):
        raise DataError("nothing to look for", field="contains", value=wanted)
    read: Mapping[_Match, Callable[[str], str]] = {"text": str.casefold, "word": _spoken, "exact": str}
    return lambda response: times(read[match](response).count(read[match](wanted)))


@_rule("does not contain [{match} ]{wanted}")
def _lacks(wanted: str, match: _Match = "text") -> Holds:
    return _contains(wanted, match, _bound("exactly 0"))


@lru_cache(maxsize=4096)
def _spoken(text: str) -> str:
    """Every word between spaces of its own, so that neighbours do not share one."""
    return "".join(f" {word} " for word in words_of(text))


@_rule("word {first} comes before word {second}")
def _before(first: str, second: str) -> Holds:
    """Two words occur, and the first one's first place is before the second's."""
    if not words_of(first) or not words_of(second):
        raise DataError("two words are needed", field="before", value=(first, second))
    return lambda response: -1 < _spoken(response).find(_spoken(first)) < _spoken(response).find(_spoken(second))


@_rule("{edge} with {wanted}")
def _affix(edge: Literal["starts", "ends"], wanted: str) -> Holds:
    """The response starts or ends with a text, whatever the case, space around it aside."""
    if wanted != wanted.strip():
        raise DataError("a text without space around it", field="affix", value=wanted)
    is_there = str.startswith if edge == "starts" else str.endswith
    return lambda response: is_there(response.strip().casefold(), wanted.casefold())


@_rule("matches {pattern}", at_once=True)
def _matches(pattern: str) -> Hold:
    """A regular expression in Rust's syntax occurs, case and all.

    Its engine never backtracks: whatever the pattern, it takes time linear in the text.
    """
    from polars import Series, String  # tasks name rules where nothing heavy is loaded
    from polars.exceptions import ComputeError

    def hold(responses: Sequence[str]) -> list[bool]:
        read = [one.encode("utf-8", "replace").decode() for one in responses]
        return Series(read, dtype=String).str.contains(pattern).to_list()

    try:
        hold([""])
    except ComputeError as error:
        why = next((one for one in str(error).splitlines() if one.startswith("error: ")), str(error))
        raise DataError(f"pattern: {why.splitlines()[0]}", field="pattern", value=pattern) from None
    return hold


_PLURALS: Final = ("", "s", "es")


@_rule("names {count} of {of}[ and none of {unsaid}]")
def _names(of: tuple[str, ...], count: Bound, unsaid: tuple[str, ...] = ()) -> Holds:
    """So many of these words or phrases occur, each counted once, as whole words, with or without `s` or `es`.

    None of `unsaid` does: words of the instruction, which an answer that talks about its instruction repeats.
    """
    named = [words_of(one) for one in (*of, *unsaid)]
    if not all(named) or len(set(named)) < len(named):
        raise DataError("words that differ", field="names", value=(*of, *unsaid))
    # Of each phrase, its words with a space on either side, as they are found among a text's.
    forms = [[f" {' '.join(words)}{end} " for end in _PLURALS] for words in named]

    def holds(response: str) -> bool:
        spoken = f" {' '.join(words_of(response))} "
        found = [any(form in spoken for form in one) for one in forms]
        return bool(spoken.strip()) and not any(found[len(of) :]) and count(sum(found[: len(of)]))

    return holds


@_rule("has {count} words, none more than {most} times")
def _varied_words(count: Bound, most: int) -> Holds:
    """There are so many words, at least one, and none occurs more often than so."""
    if most < 1:
        raise DataError("how often a word may occur", field="most", value=most)

    def holds(response: str) -> bool:
        words = Counter(words_of(response))
        return bool(words) and count(words.total()) and max(words.values()) <= most

    return holds


@_rule("has {count} different words that start with {wanted}")
def _beginnings(wanted: str, count: Bound) -> Holds:
    """There are words, and so many different ones start with a text, whatever the case."""
    if words_of(wanted) != (begins := wanted.casefold(),):
        raise DataError("the first letters of a word", field="start", value=wanted)

    def holds(response: str) -> bool:
        words = set(words_of(response))
        return bool(words) and count(sum(word.startswith(begins) for word in words))

    return holds


_OPENS: Final = "\"'(\u201c\u2018"
_CLOSES: Final = "\"')\u201d\u2019"


@_rule("is {count} whole sentences")
def _whole_sentences(count: Bound) -> Holds:
    """There are so many sentences; no small letter begins the first, and a stop mark ends the last.

    Quotation marks and brackets around them aside. A list of words and a text that was cut off are none.
    """

    def holds(response: str) -> bool:
        text = response.strip()
        begins, ends = text.lstrip(_OPENS)[:1], text.rstrip(_CLOSES)
        is_whole = begins.isalnum() and not begins.islower() and ends.endswith((".", "!", "?"))
        return is_whole and count(len(sentences_of(text)))

    return holds


_MEASURED: Final[Mapping[str, tuple[Unit, ...]]] = MappingProxyType(
    {"line": ("words", "characters", "sentences"), "sentence": ("words", "characters"), "word": ("characters",)}
)


@_rule("every {part} has {bound} {unit}")
def _every_part(part: Literal["line", "sentence", "word"], bound: Bound, unit: Unit) -> Holds:
    """There are lines, sentences or words with a letter or digit, and each of them is so long."""
    if unit not in _MEASURED[part]:
        what, allowed = f"a {part} is not measured in {unit}", _MEASURED[part]
        raise DataError(what, field="unit", value=unit, allowed=allowed)

    def holds(response: str) -> bool:
        parts = _PIECES[f"{part}s"](response)
        return bool(words_of(response)) and all(bound(len(_PIECES[unit](one))) for one in parts)

    return holds


@dataclass(frozen=True, slots=True)
class Rule:
    """A decidable predicate over responses, as a criterion carries it."""

    text: str
    hold: Hold

    def holds(self, response: str) -> bool:
        """Return true if the response obeys."""
        return self.hold([response])[0]


def _one_by_one(holds: Holds) -> Hold:
    return lambda responses: list(map(holds, responses))


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
    text = criterion.removeprefix(PREFIX)
    if text in _LOOKS:
        return Rule(text, _one_by_one(_LOOKS[text]))
    for pattern, readers, make, at_once in _patterns():
        if (found := pattern.fullmatch(text)) is not None:
            made: Any = make(**{key: readers[key](one) for key, one in found.groupdict().items() if one is not None})
            return Rule(text, made if at_once else _one_by_one(made))
    raise DataError("not a rule in one of the forms", field="rule", value=criterion, allowed=FORMS)


class RuleJudge:
    """Judges responses by rules alone: no model, no network, and nothing a response says can sway it."""

    def __init__(self, criteria: Sequence[str]) -> None:
        rules: list[Rule] = []
        for place, criterion in enumerate(criteria, 1):
            rule = parse_rule(criterion)
            if rule is None:
                what = "the rule judge cannot judge prose"
                fix = "write it as 'rule: ...', or name a model as judge_model"
                raise DataError(what, field=f"criterion {place}", value=criterion, fix=fix)
            rules.append(rule)
        self._rules = tuple(rules)

    def held(self, response: str) -> list[bool]:
        """Return whether each criterion holds, in order. Never raises."""
        return [rule.holds(response) for rule in self._rules]

    def hold(self, responses: Sequence[str]) -> list[list[bool]]:
        """Return for each criterion, in order, which responses it holds of. Never raises."""
        return [rule.hold(responses) for rule in self._rules]

    def judge(self, response: str) -> tuple[Verdict, ...]:
        """Return one verdict a criterion, in order. Never raises."""
        pairs = zip(self.held(response), self._rules, strict=True)
        return tuple(Verdict(held, f"{'holds' if held else 'fails'}: {rule.text}") for held, rule in pairs)


Outcome = Judged | JudgeFailure | Failed
"""Verdicts on a response, or why there are none; Failed in a run's record, of an answer that was lost after them."""


class Judge(Protocol):
    """A judge; `BlockingJudge` is one, `RulesOnly` another."""

    def judge_all(self, requests: Sequence[JudgeRequest]) -> Sequence[Outcome]:
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
