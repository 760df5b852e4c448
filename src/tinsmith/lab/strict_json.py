"""Strict JSON parser of model outputs; for any text it raises nothing but NotJsonError.

Stricter than Python's reader where that one takes more than JSON or may fail: NaN and infinity, lone
surrogates and deep nesting are no JSON here. Numbers are kept as they are written, because a number
of a million digits is no reason to stop; repeated keys are kept, because the last one must not win.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

MAX_NESTING: Final = 16
"""Greatest depth: deeper values could exhaust the stack of later code."""


class NotJsonError(ValueError):
    """The text is not one JSON value."""


@dataclass(frozen=True, slots=True)
class JsonNumber:
    """Number as spelled in the text."""

    literal: str


@dataclass(frozen=True, slots=True)
class JsonObject:
    """Object with keys and values as spelled, in order, including repeated keys."""

    pairs: tuple[tuple[str, JsonValue], ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys in order, including repetitions."""
        return tuple(key for key, _ in self.pairs)


JsonValue: TypeAlias = "JsonObject | JsonNumber | list[JsonValue] | str | bool | None"


def read_json(text: str) -> JsonValue:
    """Parse one JSON value, with only JSON's white space around it.

    >>> read_json('{"a": 1, "a": [true]}').keys
    ('a', 'a')
    """
    try:
        value: JsonValue = json.loads(
            text,
            object_pairs_hook=lambda pairs: JsonObject(tuple(pairs)),
            parse_int=JsonNumber,
            parse_float=JsonNumber,
            parse_constant=_refuse,
        )
    except RecursionError:
        raise NotJsonError("nested too deeply") from None
    except ValueError as error:
        raise NotJsonError(str(error)) from None
    _check(value, MAX_NESTING)
    return value


def _refuse(constant: str) -> NoReturn:
    raise NotJsonError(f"{constant} is not JSON")


def _check(value: JsonValue, levels: int) -> None:
    match value:
        case str():
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise NotJsonError("a lone surrogate is no character")
        case JsonObject() | list():
            if levels == 0:
                raise NotJsonError("nested too deeply")
            for one in value if isinstance(value, list) else (part for pair in value.pairs for part in pair):
                _check(one, levels - 1)
        case _:
            return
