"""How damaged JSON files may be and still be read: raw control characters in strings, nothing else.

One file holds an array of records, one record a line, or records one after another over several
lines. Whatever else is wrong is reported with its line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn, cast

from tinsmith.types.errors import DataError

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_SPACE = re.compile(r"[ \t\r\n]*")
_BETWEEN = re.compile(r"[ \t\r\n]*(,?)[ \t\r\n]*")
_LINE = re.compile(r"[^\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRecord:
    """One object of a file, and where it begins."""

    line: int
    value: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRecords:
    """The objects of one file in order."""

    records: tuple[JsonRecord, ...]
    control_characters: int
    """How many raw tabs, line ends and other control characters stood inside strings."""


def decode(data: bytes, name: str) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark.

    Raises:
        DataError: the bytes are not UTF-8; with line and column of the first that is not.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        raise _damage(before, len(before), name, "not UTF-8") from None


def read_records(text: str, name: str) -> JsonRecords:
    """Read every record of a JSON or JSONL text; `name` is how errors call the file.

    Raises:
        DataError: the text is damaged otherwise than by control characters in strings, a key is
            repeated in an object, a number is not JSON, or a record is no object.
    """
    start = _skip(text, 0)
    spans = _array(text, start, name) if text.startswith("[", start) else _stream(text, start, name)
    records: list[JsonRecord] = []
    control = line = 0
    counted = 0
    for begin, end, value in spans:
        line += text.count("\n", counted, begin)
        counted = begin
        if not isinstance(value, dict):
            raise _damage(text, begin, name, "a record is an object in braces")
        records.append(JsonRecord(line=line + 1, value=cast("dict[str, object]", value)))
        control += sum(
            len(_CONTROL.findall(string[0])) for string in _STRING.finditer(text, begin, end)
        )
    return JsonRecords(records=tuple(records), control_characters=control)


def _array(text: str, start: int, name: str) -> Iterator[tuple[int, int, object]]:
    """The values of one array, and nothing behind it."""
    position = _skip(text, start + 1)
    while not text.startswith("]", position):
        value, end = _value(text, position, name)
        yield position, end, value
        between = _BETWEEN.match(text, end)
        assert between is not None  # it matches the empty text
        follows = between.end()
        if not between[1] and not text.startswith("]", follows):
            raise _damage(text, follows, name, "expected a comma or the end of the array")
        if between[1] and text.startswith("]", follows):
            raise _damage(text, follows, name, "expected a record after the comma")
        position = follows
    rest = _skip(text, position + 1)
    if rest < len(text):
        raise _damage(text, rest, name, "text after the end of the array")


def _stream(text: str, start: int, name: str) -> Iterator[tuple[int, int, object]]:
    """Values one after another: one a line, or one over several lines."""
    position = start
    while position < len(text):
        value, end = _line_or_more(text, position, name)
        yield position, end, value
        rest = _skip(text, end)
        if rest < len(text) and "\n" not in text[end:rest]:
            raise _damage(text, rest, name, "text behind a record on its line")
        position = rest


def _line_or_more(text: str, position: int, name: str) -> tuple[object, int]:
    line = _LINE.match(text, position)
    assert line is not None  # it matches the empty text
    try:
        return _value(text, position, name)
    except _At as error:
        # A string that is not closed runs into the next record: the fault is where it was opened.
        try:
            _DECODER.raw_decode(line[0])
        except json.JSONDecodeError as of_line:
            if of_line.msg.startswith("Unterminated string"):
                at = position + of_line.pos
                raise _damage(text, at, name, "a string is not closed, or damaged") from None
        except (ValueError, RecursionError):
            pass
        raise error from None


class _At(DataError):
    """Damage found by the reader itself."""


def _value(text: str, position: int, name: str) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise _At(_where(text, error.pos, name, error.msg)) from None
    except RecursionError:
        raise _At(_where(text, position, name, "nested too deeply")) from None
    except ValueError as error:
        raise _At(_where(text, position, name, f"in this record: {error}")) from None


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:60]!r} stands twice")
        found[key] = value
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _whole(literal: str) -> int:
    if len(literal) > 40:
        raise ValueError("a whole number of more than 40 digits")
    return int(literal)


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_pairs, parse_constant=_refuse, parse_int=_whole
)


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None  # it matches the empty text
    return space.end()


def _damage(text: str, position: int, name: str, why: str) -> DataError:
    return DataError(_where(text, position, name, why), fix="mend or remove that record")


def _where(text: str, position: int, name: str, why: str) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"{name}, line {line}, column {column}: {why}"
