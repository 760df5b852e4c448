"""Files of rubric tasks (JSON, JSONL, CSV, TSV, Parquet, Arrow), read whole, and dealt to two sides by task id.

A text holds an array of records, one record a line, or records one after another over several lines. Raw control
characters in strings are read as they stand; whatever else is wrong is reported with its line and column.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Final, NoReturn, TypeVar, cast

from tinsmith.studies.rubrics.task import RubricTask, task_of
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

T = TypeVar("T")

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_SPACE = re.compile(r"[ \t\r\n]*")


JsonRecord = tuple[int, dict[str, object]]  # The line on which it begins, and its values.


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
        records.append((line + 1, cast("dict[str, object]", value)))
        strings = _STRING.finditer(text, begin, end)
        control += sum(len(_CONTROL.findall(string[0])) for string in strings)
    return tuple(records), control


def checked_file(path: Path, endings: Sequence[str]) -> str:
    """Return the end of a file's name."""
    ending = path.suffix.lower()
    if not path.is_file():
        raise ConfigError("no such file", field="data_path", value=str(path))
    if ending not in endings:
        raise ConfigError("files of this kind cannot be read", field="data_path", value=str(path), allowed=endings)
    return ending


def gathered(
    records: Iterable[JsonRecord],
    read: Callable[[dict[str, object]], T | None],
    *,
    name: str,
    what: str,
    place: str = "line",
    fix: str,
) -> tuple[dict[str, T], int]:
    """Return what `read` makes of records, by `{what}_id` in their order, and how many have no rubric."""
    found: dict[str, T] = {}
    lines: dict[str, int] = {}
    without = 0
    for line, record in records:
        where = f"{name}, {place} {line}"
        try:
            value = read(record)
        except DataError as error:
            raise DataError(f"{where}: {error.what}", field=error.field, allowed=error.allowed) from None
        if value is None:
            without += 1
            continue
        key = str(getattr(value, f"{what}_id"))
        if key in found:
            why = f"{where}: this {what} is already at {place} {lines[key]}"
            raise DataError(why, field=f"{what}_id", value=key)
        found[key], lines[key] = value, line
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


_TEXTS: Final = (".json", ".jsonl", ".ndjson")
_SEPARATORS: Final[Mapping[str, str]] = {".csv": ",", ".tsv": "\t"}
_TABLES: Final = (*_SEPARATORS, ".parquet", ".arrow", ".feather")


class BuiltinTasks(enum.StrEnum):
    """The data sets that need no download, as files beside this module: instructions whose rubrics are all rules."""

    FEW_WORDS = "builtin_tasks.jsonl"
    """Made from templates, for a model built from scratch; an answer of at most twelve words passes all rules."""
    EVERYDAY = "everyday_tasks.jsonl"  # Written by hand, in plain English, for a small chat model.


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricDataset:
    """Rubric tasks in file order, and what was passed over or mended on the way."""

    tasks: tuple[RubricTask, ...]
    control_characters: int = 0  # Raw control characters inside strings, kept as they stood.
    without_rubrics: int = 0  # Records left out because they have no rubric.

    @property
    def sha256(self) -> str:
        """Fingerprint of the tasks' content, whatever their order and the file's form."""
        return sha256_of(sorted(self.tasks, key=lambda task: task.task_id))

    @property
    def rubric_count(self) -> int:
        """Rubrics of all tasks together."""
        return sum(len(task.rubrics) for task in self.tasks)


def read_dataset(path: Path) -> RubricDataset:
    """Read a file of rubric tasks; the end of its name says which form it has."""
    ending = checked_file(path, (*_TEXTS, *_TABLES))
    if ending in _TABLES:
        return _gathered(_rows(path, ending), path.name, "row", 0)
    return read_text(path.read_bytes(), path.name)


def builtin_dataset(which: BuiltinTasks = BuiltinTasks.FEW_WORDS) -> RubricDataset:
    """Return built-in tasks."""
    folder = resources.files("tinsmith.studies.rubrics")
    return read_text(folder.joinpath(which.value).read_bytes(), which.value)


def read_text(data: bytes, name: str) -> RubricDataset:
    """Read the bytes of a JSON or JSONL file; `name` is how errors call it."""
    records, control = read_records(decode(data, name), name)
    return _gathered(records, name, "line", control)


def _gathered(records: Iterable[JsonRecord], name: str, place: str, control_characters: int) -> RubricDataset:
    fix = "give each record prompt and rubrics, or 'rubric - 1. criterion'"
    found, without = gathered(records, task_of, name=name, what="task", place=place, fix=fix)
    return RubricDataset(tasks=tuple(found.values()), control_characters=control_characters, without_rubrics=without)


def _rows(path: Path, ending: str) -> list[JsonRecord]:
    import polars as pl  # a command's mistakes are told without it

    try:
        if ending in _SEPARATORS:
            # As text: a prompt "1" is no number.
            table = pl.read_csv(path, separator=_SEPARATORS[ending], infer_schema=False)
        elif ending == ".parquet":
            table = pl.read_parquet(path)
        else:
            table = pl.read_ipc(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        why = str(error).split("\n", 1)[0][:200]
        raise DataError(f"{path.name}: not a readable table: {why}") from None
    # The first row is 1; in a CSV file, that is the one below the heading.
    return list(enumerate(table.iter_rows(named=True), 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricSplit:
    """Training and test tasks, each in the order the seed gave them."""

    train: tuple[RubricTask, ...]
    test: tuple[RubricTask, ...]
    train_ratio: float
    data_seed: int

    @property
    def sha256(self) -> str:
        """Fingerprint of every task's content, its side and its place."""
        return sha256_of(self)


def split_tasks(tasks: Sequence[RubricTask], *, train_ratio: float = 0.9, data_seed: int = 42) -> RubricSplit:
    """Deal tasks out; a ratio below 1 leaves at least one task on either side.

    Equal tasks in any order give the same split.
    """
    if not 0 < train_ratio <= 1:
        raise ConfigError("a share of the tasks", field="train_ratio", value=train_ratio, allowed="0 < r <= 1")
    if len({task.task_id for task in tasks}) < len(tasks):
        raise DataError("a task id occurs twice", field="task_id")
    sides = 1 if train_ratio == 1 else 2
    if len(tasks) < sides:
        raise DataError("there are too few tasks to split", field="tasks", value=len(tasks))
    order = sorted(tasks, key=lambda one: (derive(data_seed, "rubrics", "split", one.task_id), one.task_id))
    # As the ratio is written: 0.29 of 100 tasks are 29.
    count = int(Fraction(repr(float(train_ratio))) * len(tasks))
    if sides == 2:
        count = min(max(count, 1), len(tasks) - 1)
    train, test = tuple(order[:count]), tuple(order[count:])
    return RubricSplit(train=train, test=test, train_ratio=float(train_ratio), data_seed=data_seed)
