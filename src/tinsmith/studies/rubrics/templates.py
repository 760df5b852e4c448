"""The kinds of short instructions of the built-in tasks: their words, rules and worked answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tinsmith.studies.rubrics.rules.rule import NONE_AT_ALL, Bound, Rule
from tinsmith.studies.rubrics.rules.shape_rules import (
    IsList,
    JsonKeys,
    Length,
    ListKind,
    Look,
    Looks,
    Unit,
)
from tinsmith.studies.rubrics.rules.word_rules import Affix, Before, Contains, Edge, Match

_WORDS: Final = """
    data field model system surface growth theory sample space source control process problem practice
    structure response standard activity performance strategy risk scale energy memory
"""
LEXICON: Final = tuple(_WORDS.split())
"""Every word that the built-in tasks ask for."""
_TIMES: Final = ("two", "three", "four")

Words = tuple[str, str, str]
"""Three words that differ; a template uses the first ones it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A filled template."""

    prompt: str
    rules: tuple[Rule, ...]
    answer: str
    """One that obeys every rule."""


def _word(word: str) -> Rule:
    return Contains(word, Match.WORD)


def _words(least: int, most: int) -> Rule:
    return Length(Unit.WORDS, Bound(least, most))


_ONE_LINE: Final = Length(Unit.LINES, Bound(1, 1))
_STOP: Final = Affix(Edge.END, ".")
_LOWER: Final = Looks(Look.LOWER)


def _use(words: Words, _: int) -> Sheet:
    a = words[0]
    return Sheet(
        prompt=f"Write one short line with the word {a}. End with a full stop.",
        rules=(_word(a), _words(3, 10), _ONE_LINE, _STOP),
        answer=f"the {a} is good.",
    )


def _both(words: Words, _: int) -> Sheet:
    a, b, _c = words
    return Sheet(
        prompt=f"Write one short line with the words {a} and {b}. End with a full stop.",
        rules=(_word(a), _word(b), _words(3, 10), _ONE_LINE, _STOP),
        answer=f"the {a} and the {b}.",
    )


def _order(words: Words, _: int) -> Sheet:
    a, b, _c = words
    return Sheet(
        prompt=f"Write one short line in small letters with {a} first and {b} later.",
        rules=(_word(a), _word(b), Before(a, b), _words(2, 10), _LOWER),
        answer=f"the {a} and the {b}.",
    )


def _repeat(words: Words, number: int) -> Sheet:
    a = words[0]
    times = number % len(_TIMES) + 2
    return Sheet(
        prompt=f"Write the word {a} {_TIMES[number % len(_TIMES)]} times and nothing else.",
        rules=(
            Contains(a, Match.WORD, Bound(least=times)),
            _words(times, times),
            Affix(Edge.START, a),
            _LOWER,
        ),
        answer=" ".join([a] * times),
    )


def _ends(words: Words, _: int) -> Sheet:
    a, b, _c = words
    return Sheet(
        prompt=f"Write one short line that starts with {a} and ends with {b}.",
        rules=(Affix(Edge.START, a), Affix(Edge.END, b), _words(2, 10), _ONE_LINE),
        answer=f"{a} and {b}",
    )


def _avoid(words: Words, _: int) -> Sheet:
    a, b, _c = words
    return Sheet(
        prompt=f"Write one short line with the word {a} but not {b}. End with a full stop.",
        rules=(_word(a), Contains(b, Match.WORD, NONE_AT_ALL), _words(3, 10), _ONE_LINE, _STOP),
        answer=f"the {a} is good.",
    )


def _list(words: Words, _: int) -> Sheet:
    a, b, c = words
    return Sheet(
        prompt=f"List {a}, {b} and {c}. One a line, each after a dash.",
        rules=(IsList(ListKind.BULLET, Bound(3, 3)), _word(a), _word(b), _word(c), _words(3, 6)),
        answer=f"- {a}\n- {b}\n- {c}",
    )


def _json(words: Words, _: int) -> Sheet:
    a, b, _c = words
    return Sheet(
        prompt=f"Write short JSON with the keys {a} and {b}.",
        rules=(Looks(Look.JSON), JsonKeys((a,)), JsonKeys((b,)), _words(2, 8)),
        answer=json.dumps({a: 1, b: 2}),
    )


FAMILIES: Final[tuple[tuple[str, Callable[[Words, int], Sheet]], ...]] = (
    ("use", _use),
    ("both", _both),
    ("order", _order),
    ("repeat", _repeat),
    ("ends", _ends),
    ("avoid", _avoid),
    ("list", _list),
    ("json", _json),
)
"""Templates by the name of their kind; each takes words and the number of the task."""
