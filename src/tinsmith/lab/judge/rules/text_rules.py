"""Rules about a response, its length, form, words, patterns and topic; criteria that carry one; and judges by rules.

Texts are compared without regard to case unless a rule says so; words are those of `text_measures.words_of`.
Every rule holds or does not for any text whatever, without raising.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Protocol

from tinsmith.lab.judge.prompting import JudgeRequest
from tinsmith.lab.judge.records import Answered, Judged, JudgeFailure, Spent, Verdict
from tinsmith.lab.judge.rules.rule import AT_LEAST_ONE, LARGEST, NONE_AT_ALL, Bound, Form, Rule
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
from tinsmith.lab.strict_json import JsonObject, NotJsonError, read_json
from tinsmith.types.errors import DataError


class Unit(enum.StrEnum):
    """Unit of a length."""

    WORDS = "words"
    CHARACTERS = "characters"  # those of the space around the response aside
    SENTENCES = "sentences"
    LINES = "lines"  # blank ones aside


def length(response: str, unit: Unit) -> int:
    """Return a response's length."""
    return len(_PIECES[unit](response))


_PIECES: Final[Mapping[Unit, Callable[[str], Sequence[str]]]] = MappingProxyType(
    {Unit.WORDS: words_of, Unit.CHARACTERS: str.strip, Unit.SENTENCES: sentences_of, Unit.LINES: lines_of}
)


@dataclass(frozen=True, slots=True)
class Length(Rule):
    """The response is so long."""

    forms = (Form("has {bound} {unit}"),)
    unit: Unit
    bound: Bound

    def holds(self, response: str) -> bool:
        return self.bound.holds(length(response, self.unit))


class ListKind(enum.StrEnum):
    """Lists that fill a response."""

    BULLET = "bullet"
    NUMBERED = "numbered"


@dataclass(frozen=True, slots=True)
class IsList(Rule):
    """The response is a list and nothing else, of so many items."""

    forms = (Form("is a {kind} list[ of {items} items]"),)
    kind: ListKind
    items: Bound = AT_LEAST_ONE

    def holds(self, response: str) -> bool:
        count = (bullets_of if self.kind is ListKind.BULLET else numbered_of)(response)
        return count is not None and self.items.holds(count)


class Look(enum.StrEnum):
    """Property of a text that needs no count; the value is the text form."""

    HEADING = "has a heading"
    LOWER = "is in lower case"
    UPPER = "is in upper case"
    ASCII = "is ascii"
    JSON = "is json"


@dataclass(frozen=True, slots=True)
class Looks(Rule):
    """The response looks so; case and ascii need a letter, because no text has no case."""

    forms = (Form("{look}"),)
    look: Look

    def holds(self, response: str) -> bool:
        return _LOOKS[self.look](response)


def _is_json(response: str) -> bool:
    try:
        read_json(response.strip())
    except NotJsonError:
        return False
    return True


_LOOKS: Final[Mapping[Look, Callable[[str], bool]]] = MappingProxyType(
    {
        Look.HEADING: has_heading,
        Look.LOWER: str.islower,
        Look.UPPER: str.isupper,
        Look.ASCII: lambda response: response.isascii() and any(map(str.isalpha, response)),
        Look.JSON: _is_json,
    }
)


@dataclass(frozen=True, slots=True)
class Written(Rule):
    """There are letters, and all are of one script."""

    forms = (Form("is written in {script} letters"),)
    script: Script

    def holds(self, response: str) -> bool:
        return only_script(response, self.script)


@dataclass(frozen=True, slots=True)
class JsonKeys(Rule):
    """The response is a JSON object that has each of these keys once; others may be there."""

    forms = (Form("is a json object with keys {keys}"),)
    keys: tuple[str, ...]

    def __post_init__(self) -> None:
        if not all(self.keys) or len(set(self.keys)) < max(1, len(self.keys)):
            raise DataError("keys are texts that differ", field="keys", value=self.keys)

    def holds(self, response: str) -> bool:
        try:
            value = read_json(response.strip())
        except NotJsonError:
            return False
        return isinstance(value, JsonObject) and all(value.keys.count(key) == 1 for key in self.keys)


class Match(enum.StrEnum):
    """How a text is looked for."""

    TEXT = "text"  # anywhere, whatever the case
    WORD = "word"  # as whole words, whatever the case
    EXACT = "exact"  # anywhere, case and all


@dataclass(frozen=True, slots=True)
class Contains(Rule):
    """A text occurs, so and so often, occurrences not overlapping."""

    forms = (
        Form("does not contain [{match} ]{wanted}", {"times": NONE_AT_ALL}),
        Form("contains [{match} ]{wanted}[ {times} times]"),
    )
    wanted: str
    match: Match = Match.TEXT
    times: Bound = AT_LEAST_ONE

    def __post_init__(self) -> None:
        if not self.wanted or (self.match is Match.WORD and not words_of(self.wanted)):
            raise DataError("nothing to look for", field="contains", value=self.wanted)

    def holds(self, response: str) -> bool:
        if self.match is Match.WORD:
            count = _spoken(response).count(_spoken(self.wanted))
        elif self.match is Match.EXACT:
            count = response.count(self.wanted)
        else:
            count = response.casefold().count(self.wanted.casefold())
        return self.times.holds(count)


@lru_cache(maxsize=4096)
def _spoken(text: str) -> str:
    """Every word between spaces of its own, so that neighbours do not share one."""
    return "".join(f" {word} " for word in words_of(text))


@dataclass(frozen=True, slots=True)
class Before(Rule):
    """Two words occur, and the first one's first place is before the second's."""

    forms = (Form("word {first} comes before word {second}"),)
    first: str
    second: str

    def __post_init__(self) -> None:
        if not words_of(self.first) or not words_of(self.second):
            raise DataError("two words are needed", field="before", value=(self.first, self.second))

    def holds(self, response: str) -> bool:
        spoken = _spoken(response)
        return -1 < spoken.find(_spoken(self.first)) < spoken.find(_spoken(self.second))


class Edge(enum.StrEnum):
    """The two ends of a response, without the space around it."""

    START = "starts with"
    END = "ends with"


@dataclass(frozen=True, slots=True)
class Affix(Rule):
    """The response starts or ends with a text, whatever the case, space around it aside."""

    forms = (Form("{edge} {wanted}"),)
    edge: Edge
    wanted: str

    def __post_init__(self) -> None:
        if not self.wanted or self.wanted != self.wanted.strip():
            raise DataError("a text without space around it", field="affix", value=self.wanted)

    def holds(self, response: str) -> bool:
        said, wanted = response.strip().casefold(), self.wanted.casefold()
        return said.startswith(wanted) if self.edge is Edge.START else said.endswith(wanted)


@dataclass(frozen=True, slots=True)
class Matches(Rule):
    """A regular expression in Rust's syntax occurs, case and all.

    Its engine never backtracks: whatever the pattern, it takes time linear in the text.
    """

    forms = (Form("matches {pattern}"),)
    pattern: str

    def __post_init__(self) -> None:
        if not self.pattern:
            raise DataError("an empty pattern", field="pattern", value="")
        from polars.exceptions import ComputeError

        try:
            self.holds("")
        except ComputeError as error:
            why = next((one for one in str(error).splitlines() if one.startswith("error: ")), str(error))
            raise DataError(f"pattern: {why.splitlines()[0]}", field="pattern", value=self.pattern) from None

    def holds(self, response: str) -> bool:
        return self.hold([response])[0]

    def hold(self, responses: Sequence[str]) -> list[bool]:
        from polars import Series, String  # tasks name rules where nothing heavy is loaded

        read = [one.encode("utf-8", "replace").decode() for one in responses]
        return Series(read, dtype=String).str.contains(self.pattern).to_list()


_PLURALS: Final = ("", "s", "es")


@lru_cache(maxsize=4096)
def _forms(phrases: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Of each phrase, its words with a space on either side, as they are found among a text's."""
    return tuple(tuple(f" {' '.join(words_of(one))}{end} " for end in _PLURALS) for one in phrases)


@dataclass(frozen=True, slots=True)
class Names(Rule):
    """So many of these words or phrases occur, each counted once, as whole words, with or without `s` or `es`.

    None of `unsaid` does: words of the instruction, which an answer that talks about its instruction repeats.
    """

    forms = (Form("names {count} of {of}[ and none of {unsaid}]"),)
    of: tuple[str, ...]
    count: Bound
    unsaid: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        said = [words_of(one) for one in (*self.of, *self.unsaid)]
        if not self.of or not all(said) or len(set(said)) < len(said):
            value = (*self.of, *self.unsaid)
            raise DataError("words that differ", field="names", value=value)

    def holds(self, response: str) -> bool:
        words = words_of(response)
        spoken = f" {' '.join(words)} "

        def occurring(phrases: tuple[str, ...]) -> int:
            return sum(any(form in spoken for form in forms) for forms in _forms(phrases))

        return bool(words) and not occurring(self.unsaid) and self.count.holds(occurring(self.of))


@dataclass(frozen=True, slots=True)
class VariedWords(Rule):
    """There are so many words, at least one, and none occurs more often than so."""

    forms = (Form("has {count} words, none more than {most} times"),)
    count: Bound
    most: int

    def __post_init__(self) -> None:
        if not 1 <= self.most <= LARGEST:
            raise DataError("how often a word may occur", field="most", value=self.most)

    def holds(self, response: str) -> bool:
        words = Counter(words_of(response))
        return bool(words) and self.count.holds(words.total()) and max(words.values()) <= self.most


@dataclass(frozen=True, slots=True)
class Beginnings(Rule):
    """There are words, and so many different ones start with a text, whatever the case."""

    forms = (Form("has {count} different words that start with {wanted}"),)
    wanted: str
    count: Bound

    def __post_init__(self) -> None:
        if words_of(self.wanted) != (self.wanted.casefold(),):
            raise DataError("the first letters of a word", field="start", value=self.wanted)

    def holds(self, response: str) -> bool:
        words = set(words_of(response))
        wanted = self.wanted.casefold()
        return bool(words) and self.count.holds(sum(word.startswith(wanted) for word in words))


_OPENS: Final = "\"'(\u201c\u2018"
_CLOSES: Final = "\"')\u201d\u2019"
_STOPS: Final = (".", "!", "?")


@dataclass(frozen=True, slots=True)
class WholeSentences(Rule):
    """There are so many sentences; no small letter begins the first, and a stop mark ends the last.

    Quotation marks and brackets around them aside. A list of words and a text that was cut off are none.
    """

    forms = (Form("is {count} whole sentences"),)
    count: Bound

    def holds(self, response: str) -> bool:
        said = response.strip()
        begins, ends = said.lstrip(_OPENS)[:1], said.rstrip(_CLOSES)
        is_whole = begins.isalnum() and not begins.islower() and ends.endswith(_STOPS)
        return is_whole and self.count.holds(len(sentences_of(said)))


class Part(enum.StrEnum):
    """Parts of a response."""

    LINE = "line"
    SENTENCE = "sentence"
    WORD = "word"


_MEASURED: Final[Mapping[Part, tuple[Unit, ...]]] = MappingProxyType(
    {
        Part.LINE: (Unit.WORDS, Unit.CHARACTERS, Unit.SENTENCES),
        Part.SENTENCE: (Unit.WORDS, Unit.CHARACTERS),
        Part.WORD: (Unit.CHARACTERS,),
    }
)


@dataclass(frozen=True, slots=True)
class EveryPart(Rule):
    """There are lines, sentences or words with a letter or digit, and each of them is so long."""

    forms = (Form("every {part} has {bound} {unit}"),)
    part: Part
    unit: Unit
    bound: Bound

    def __post_init__(self) -> None:
        allowed = _MEASURED[self.part]
        if self.unit not in allowed:
            what = f"a {self.part.value} is not measured in {self.unit.value}"
            raise DataError(what, field="unit", value=self.unit.value, allowed=", ".join(allowed))

    def holds(self, response: str) -> bool:
        parts = _PIECES[Unit(f"{self.part}s")](response)
        return bool(words_of(response)) and all(self.bound.holds(length(part, self.unit)) for part in parts)


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
