"""A small office that is asked about: who is over whom, in which list that stands, and what everybody's code is.

A question of one hop asks for a person's code. One of two hops asks for the code of the person's chief, who stands in
one of three lists; which one is not said, so that a look-up may come to nothing and another list has to be tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from random import Random
from typing import Final

from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

LISTS: Final = ("chief", "desk", "line")
"""The lists that chiefs may stand in."""
_SHARES: Final = (0.5, 0.3, 0.2)
"""Of the chiefs that stand in each."""
CODE: Final = "code"
ANSWER: Final = "answer"
NOTHING: Final = "none"
_CONSONANTS: Final = "bdfgklmnprstvz"
_VOWELS: Final = "aeiou"
_PEOPLE: Final = 60
_CODES: Final = 120


class Hops(StrEnum):
    """How many things have to be looked up at least."""

    ONE = "one"
    TWO = "two"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One item: what is asked, and the part of the office that bears on it."""

    id: str
    hops: Hops
    person: str
    chief: str
    list: str
    """In which the person's chief stands."""
    own_code: str
    chief_code: str

    @property
    def code(self) -> str:
        """The right answer."""
        return self.own_code if self.hops is Hops.ONE else self.chief_code


@cache
def names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of people and the codes: short words that have nothing in common, always the same."""
    words = [a + b + c for a in _CONSONANTS for b in _VOWELS for c in _CONSONANTS]
    Random(derive(0, "office")).shuffle(words)
    return tuple(words[:_PEOPLE]), tuple(words[_PEOPLE : _PEOPLE + _CODES])


def questions(count: int, side: str, seed: int, *, two_hops: float) -> tuple[Question, ...]:
    """Return different questions, so many of which have two hops; `side` keeps those of two sides apart.

    Raises:
        ConfigError: fewer than one is asked for.
    """
    if count < 1:
        raise ConfigError("there has to be a question", field=side, value=count, allowed="1 or more")
    two = round(count * two_hops)
    return tuple(
        _question(Random(derive(seed, "question", side, place)), side, place, two=place < two) for place in range(count)
    )


def _question(random: Random, side: str, place: int, *, two: bool) -> Question:
    hops = Hops.TWO if two else Hops.ONE
    person, chief = random.sample(names()[0], 2)
    own_code, chief_code = random.sample(names()[1], 2)
    return Question(
        id=f"{side}-{hops.value}-{place:03d}",
        hops=hops,
        person=person,
        chief=chief,
        list=random.choices(LISTS, _SHARES)[0],
        own_code=own_code,
        chief_code=chief_code,
    )


def told(question: Question, looked_for: Sequence[str]) -> str:
    """Return what a look-up finds: `LIST PERSON` or `code PERSON`; nothing is known of anybody else."""
    if len(looked_for) != 2:
        return NOTHING
    where, whom = looked_for
    found = {
        (question.list, question.person): question.chief,
        (CODE, question.person): question.own_code,
        (CODE, question.chief): question.chief_code,
    }
    return found.get((where, whom), NOTHING)
