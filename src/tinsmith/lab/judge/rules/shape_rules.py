"""Rules about a response's length and form: lists, headings, case, script, JSON.

Every rule holds or does not for any text whatever, without raising.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tinsmith.lab.judge.rules.rule import AT_LEAST_ONE, Bound, Form, Rule
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
    """What a length is counted in."""

    WORDS = "words"
    CHARACTERS = "characters"  # those of the space around the response aside
    SENTENCES = "sentences"
    LINES = "lines"  # blank ones aside


def length(response: str, unit: Unit) -> int:
    """Return a response's length."""
    match unit:
        case Unit.WORDS:
            return len(words_of(response))
        case Unit.CHARACTERS:
            return len(response.strip())
        case Unit.SENTENCES:
            return len(sentences_of(response))
        case Unit.LINES:
            return len(lines_of(response))


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
    """What can be seen without counting; the value is the text form."""

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
        match self.look:
            case Look.HEADING:
                return has_heading(response)
            case Look.LOWER:
                return response.islower()
            case Look.UPPER:
                return response.isupper()
            case Look.ASCII:
                return response.isascii() and any(map(str.isalpha, response))
            case Look.JSON:
                try:
                    read_json(response.strip())
                except NotJsonError:
                    return False
                return True


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
