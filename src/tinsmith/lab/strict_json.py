"""Reads JSON that a model wrote: strictly, for any text, without raising anything but NotJsonError.

Stricter than Python's reader where that one takes more than JSON or may fail: NaN and infinity, lone
surrogates and deep nesting are no JSON here. Numbers are kept as they are written, because a number
of a million digits is no reason to stop; repeated keys are kept, because the last one must not win.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

MAX_NESTING: Final = 16
"""Deeper text is not read: Python's reader would fail there, sooner or later with the caller's stack."""


class NotJsonError(ValueError):
    """The text is not one JSON value."""


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """A number as it is written."""

    literal: str


@dataclass(frozen=True, slots=True)
class JsonObject:
    """An object: its keys and values as they are written, in order, repeated ones included."""

    pairs: tuple[tuple[str, JsonValue], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in order; a repeated key stands there each time."""
        return tuple(key for key, _ in self.pairs)


JsonValue: TypeAlias = "JsonObject | JsonNumber | list[JsonValue] | str | bool | None"


def read_json(text: str) -> JsonValue:
    """Read one JSON value, with nothing but JSON's white space around it.

    >>> read_json('{"a": 1, "a": [true]}').keys
    ('a', 'a')
    """
    if _nesting(text) > MAX_NESTING:
        raise NotJsonError("nested too deeply")
    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=_object, parse_int=JsonNumber, parse_float=JsonNumber, parse_constant=_refuse
        )
    except ValueError as error:
        raise NotJsonError(str(error)) from None
    if not _is_text(value):
        raise NotJsonError("a lone surrogate is no character")
    return value


def _object(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    return JsonObject(tuple(pairs))


def _refuse(constant: str) -> NoReturn:
    raise NotJsonError(f"{constant} is not JSON")


def _nesting(text: str) -> int:
    """Return the deepest nesting, exact up to the place where the text ceases to be JSON."""
    if text.count("[") + text.count("{") <= MAX_NESTING:
        return 0
    depth = deepest = 0
    in_string = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif in_string:
            in_string = character != '"'
            escaped = character == "\\"
        elif character == '"':
            in_string = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _is_text(value: JsonValue) -> bool:
    """Whether UTF-8 can hold every string in it."""
    match value:
        case str():
            return not any("\ud800" <= character <= "\udfff" for character in value)
        case JsonObject():
            return all(_is_text(key) and _is_text(one) for key, one in value.pairs)
        case list():
            return all(map(_is_text, value))
        case _:
            return True
