"""Rules that tie a response to its topic and keep it from being broken off or one word over and over.

No text without a word obeys any of them, so that saying nothing earns nothing.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tinsmith.lab.judge.rules.rule import LARGEST, Bound, Form, Rule
from tinsmith.lab.judge.rules.text_rules import Unit, length
from tinsmith.lab.judge.text_measures import lines_of, sentences_of, words_of
from tinsmith.types.errors import DataError

_PLURALS: Final = ("", "s", "es")


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

        def occurs(one: str) -> bool:
            phrase = " ".join(words_of(one))
            return any(f" {phrase}{end} " in spoken for end in _PLURALS)

        return bool(words) and not any(map(occurs, self.unsaid)) and self.count.holds(sum(map(occurs, self.of)))


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
        return (
            begins.isalnum()
            and not begins.islower()
            and ends.endswith(_STOPS)
            and self.count.holds(len(sentences_of(said)))
        )


class Part(enum.StrEnum):
    """What a response is made of."""

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
            raise DataError(
                f"a {self.part.value} is not measured in {self.unit.value}",
                field="unit",
                value=self.unit.value,
                allowed=", ".join(allowed),
            )

    def holds(self, response: str) -> bool:
        match self.part:
            case Part.LINE:
                parts = lines_of(response)
            case Part.SENTENCE:
                parts = sentences_of(response)
            case Part.WORD:
                parts = words_of(response)
        return bool(words_of(response)) and all(self.bound.holds(length(part, self.unit)) for part in parts)
