"""Files of records, and how damaged JSON may be and still be read: raw control characters in strings, nothing else.

One file holds an array of records, one record a line, or records one after another over several
lines. Whatever else is wrong is reported with its line and column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, TypeVar, cast

from tinsmith.types.errors import ConfigError, DataError

T = TypeVar("T")

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRecord:
    """One object of a file, and where it begins."""

    line: int
    value: dict[str, object]


def decode(data: bytes, name: str) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        raise _damage(before, len(before), name, "not UTF-8") from None


def read_records(text: str, name: str) -> tuple[tuple[JsonRecord, ...], int]:
    """Read every record of a JSON or JSONL text, which errors call `name`; and count control characters in strings."""
    records: list[JsonRecord] = []
    control = line = counted = 0
    for begin, end, value in _values(text, name):
        line += text.count("\n", counted, begin)
        counted = begin
        if not isinstance(value, dict):
            raise _damage(text, begin, name, "a record is an object in braces")
        records.append(JsonRecord(line=line + 1, value=cast("dict[str, object]", value)))
        strings = _STRING.finditer(text, begin, end)
        control += sum(len(_CONTROL.findall(string[0])) for string in strings)
    return tuple(records), control


def checked_file(path: Path, endings: Sequence[str]) -> str:
    """Return the end of a file's name."""
    ending = path.suffix.lower()
    if not path.is_file():
        raise ConfigError("no such file", field="data_path", value=str(path))
    if ending not in endings:
        raise ConfigError(
            "files of this kind cannot be read", field="data_path", value=str(path), allowed=" ".join(endings)
        )
    return ending


def gathered(
    records: Iterable[JsonRecord],
    read: Callable[[dict[str, object]], tuple[str, T] | None],
    *,
    name: str,
    what: str,
    place: str = "line",
    fix: str,
) -> tuple[dict[str, T], int]:
    """Return what `read` makes of records, by id in their order, and how many have no rubric."""
    found: dict[str, T] = {}
    lines: dict[str, int] = {}
    without = 0
    for record in records:
        where = f"{name}, {place} {record.line}"
        try:
            named = read(record.value)
        except DataError as error:
            raise DataError(f"{where}: {error.what}", field=error.field, allowed=error.allowed) from None
        if named is None:
            without += 1
            continue
        key, value = named
        if key in found:
            why = f"{where}: this {what} is already at {place} {lines[key]}"
            raise DataError(why, field=f"{what}_id", value=key)
        found[key], lines[key] = value, record.line
    if not found:
        raise DataError(f"{name}: no {what} with a rubric", fix=fix)
    return found, without


def _values(text: str, name: str) -> Iterator[tuple[int, int, object]]:
    """Every value with its beginning and end: those of one array, or values on lines of their own."""
    position = _skip(text, 0)
    array = text.startswith("[", position)
    position = _skip(text, position + array)
    while not text.startswith("]", position) if array else position < len(text):
        value, end = _value(text, position, name)
        yield position, end, value
        position = _skip(text, end)
        if array:
            comma = text.startswith(",", position)
            position = _skip(text, position + comma)
            if comma == text.startswith("]", position):
                wanted = "a record after the comma" if comma else "a comma or the end of the array"
                raise _damage(text, position, name, f"expected {wanted}")
        elif position < len(text) and "\n" not in text[end:position]:
            raise _damage(text, position, name, "text behind a record on its line")
    rest = _skip(text, position + array)
    if rest < len(text):
        raise _damage(text, rest, name, "text after the end of the array")


def _value(text: str, position: int, name: str) -> tuple[object, int]:
    at = position
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        at, why = error.pos, error.msg
    except RecursionError:
        why = "nested too deeply"
    except ValueError as error:
        why = f"in this record: {error}"
    # A string that is not closed runs into the next record: the fault is where it was opened.
    try:
        _DECODER.raw_decode(text[position:].partition("\n")[0])
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string"):
            at, why = position + error.pos, "a string is not closed, or damaged"
    except (ValueError, RecursionError):
        pass
    raise _damage(text, at, name, why)


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:60]!r} occurs twice")
        found[key] = value
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _whole(literal: str) -> int:
    if len(literal) > 40:
        raise ValueError("a whole number of more than 40 digits")
    return int(literal)


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_pairs, parse_constant=_refuse, parse_int=_whole)


def _skip(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None  # it matches the empty text
    return space.end()


def _damage(text: str, position: int, name: str, why: str) -> DataError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    where = f"{name}, line {line}, column {column}"
    return DataError(f"{where}: {why}", fix="mend or remove that record")
