"""Rubric tasks, read from files (JSON, JSONL, CSV, TSV, Parquet, Arrow), and dealt to two sides by task id.

A record gives its rubrics in wide form (`rubric - 3. criterion`, with gaps), as a list of texts or objects (`rubrics`),
or as a rubric tree (`rubric_tree`), which is read strictly: what is wrong is said with its place.

A text holds an array of records, one record a line, or records one after another over several lines. Raw control
characters in strings are read as they stand; whatever else is wrong is reported with its line and column.
"""

from __future__ import annotations

import enum
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Final, NoReturn, TypeVar, cast

from tinsmith.lab.judge.tree import Node, criteria_of, evaluate, is_text, tree_of, typed_value, weighted_rate
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

T = TypeVar("T")
_WIDE: Final = re.compile(r"rubric - ([0-9]{1,9})\. ?(.+)", re.DOTALL)
_CRITERION: Final = "criterion"
_WEIGHT: Final = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """One thing a good response does."""

    criterion: str
    number: int  # Its N in the wide form, its place from 1 in a list; numbers may have gaps.
    weight: float | None = None  # As the data give it, for the score; None counts as 1.
    extras: tuple[tuple[str, str], ...] = ()
    """Whatever else the data say about it, sorted by name; what is no text stands as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricTask:
    """An instruction and what its response is measured by."""

    task_id: str
    prompt: str
    rubrics: tuple[Rubric, ...]
    tree: Node | None = None
    """Given by the data: its leaves are the rubrics, in order. None: the rubrics' weights count."""

    @property
    def prompt_id(self) -> str:
        """Its id: its name in the files of a run."""
        return self.task_id

    @property
    def criteria(self) -> tuple[str, ...]:
        """The criteria in order: what a judge is asked."""
        return tuple(rubric.criterion for rubric in self.rubrics)

    @property
    def weights(self) -> tuple[float, ...]:
        """The rubrics' weights, in order."""
        return tuple(1.0 if rubric.weight is None else rubric.weight for rubric in self.rubrics)

    @property
    def is_weighted(self) -> bool:
        """True if the score is not the pass rate because of the weights."""
        return len(set(self.weights)) > 1

    def score(self, verdicts: Sequence[bool]) -> float:
        """Return a response's score in [0, 1]: by the tree where there is one, else by the weights."""
        if self.tree is not None:
            return evaluate(self.tree, verdicts)
        return weighted_rate(verdicts, self.weights)


def task_of(record: Mapping[str, object]) -> RubricTask | None:
    """Return the task of one record; None where it has no rubric at all.

    Rubrics without text are skipped. A record without `task_id` is named by a hash of its content.
    """
    prompt = _text(record.get("prompt"), "prompt")
    if not prompt.strip():
        raise DataError("a task needs a prompt", field="prompt", value=prompt)
    tree_value = record.get("rubric_tree")
    tree = None if tree_value is None else tree_of(_parsed(tree_value, "rubric_tree"))
    rubrics = _rubrics(record)
    if tree is not None:
        leaves = criteria_of(tree)
        if rubrics and tuple(one.criterion for one in rubrics) != leaves:
            raise DataError("the tree's leaves are not the rubrics, in order", field="rubric_tree")
        rubrics = rubrics or tuple(Rubric(criterion=leaf, number=number) for number, leaf in enumerate(leaves, 1))
    if not rubrics:
        return None
    task_id = _task_id(record.get("task_id"), prompt, rubrics)
    task = RubricTask(task_id=task_id, prompt=prompt, rubrics=rubrics, tree=tree)
    if not any(weight > 0 for weight in task.weights):
        what = "no rubric has a weight above 0, so no response can score"
        allowed = "numbers, at least one above 0; a negative one is a penalty"
        raise DataError(what, field=_WEIGHT, value=list(task.weights), allowed=allowed)
    if task.tree is not None and task.is_weighted:
        raise DataError("a rubric tree takes no weights", field=_WEIGHT, fix="leave out the weights, or the tree")
    return task


def _task_id(value: object, prompt: str, rubrics: tuple[Rubric, ...]) -> str:
    if value is None or value == "":
        return sha256_of((prompt, rubrics))[:16]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _text(value, "task_id")


def _rubrics(record: Mapping[str, object]) -> tuple[Rubric, ...]:
    wide = _wide(record)
    listed = record.get("rubrics")
    if listed is None or listed == "":
        return wide
    if wide:
        raise DataError("rubrics are given twice, wide and as a list", field="rubrics")
    return _listed(_parsed(listed, "rubrics"))


def _wide(record: Mapping[str, object]) -> tuple[Rubric, ...]:
    parts: dict[int, dict[str, object]] = {}
    for key, value in record.items():
        if (found := _WIDE.fullmatch(key)) is None:
            continue
        of_number = parts.setdefault(int(found[1]), {})
        if found[2] in of_number:
            raise DataError("a rubric's number occurs twice", field=key)
        of_number[found[2]] = value
    made = (_rubric(parts[number], number, f"rubric - {number}.") for number in sorted(parts))
    return tuple(rubric for rubric in made if rubric is not None)


def _listed(value: object) -> tuple[Rubric, ...]:
    made: list[Rubric] = []
    for number, one in enumerate(typed_value(value, list[object], "rubrics must be a list", "rubrics"), 1):
        parts = cast("Mapping[str, object]", one) if isinstance(one, Mapping) else {_CRITERION: one}
        if _CRITERION not in parts:
            allowed = f"a text, or an object with {_CRITERION!r}"
            raise DataError("no rubric", field=f"rubrics[{number - 1}]", allowed=allowed)
        rubric = _rubric(parts, number, f"rubrics[{number - 1}]")
        if rubric is not None:
            made.append(rubric)
    return tuple(made)


def _rubric(parts: Mapping[str, object], number: int, where: str) -> Rubric | None:
    value = parts.get(_CRITERION)
    criterion = "" if value is None else _text(value, where).strip()
    if not criterion:
        return None
    extras = {
        name: said if isinstance(said, str) else json.dumps(said, sort_keys=True, default=str)
        for name, said in parts.items()
        if name not in (_CRITERION, _WEIGHT) and said is not None and said != ""
    }
    return Rubric(
        criterion=criterion,
        number=number,
        weight=_weight(parts.get(_WEIGHT), where),
        extras=tuple(sorted(extras.items())),
    )


def _weight(value: object, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        weight = float(cast("float | str", value)) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        weight = math.nan
    if not math.isfinite(weight):
        raise DataError("a weight must be a finite number", field=f"{where} {_WEIGHT}", value=value)
    return weight


def _text(value: object, field: str) -> str:
    text = typed_value(value, str, "a text is needed", field)
    if not is_text(text):
        raise DataError("a lone surrogate is not a character", field=field)
    return text


def _parsed(value: object, field: str) -> object:
    """The value itself; read from JSON where a table's cell has it as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise DataError("a text here must be JSON", field=field, value=value) from None


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
        what, allowed = "files of this kind cannot be read", " ".join(endings)
        raise ConfigError(what, field="data_path", value=str(path), allowed=allowed)
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
    values: dict[str, T] = {}
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
        if key in values:
            why = f"{where}: this {what} is already at {place} {lines[key]}"
            raise DataError(why, field=f"{what}_id", value=key)
        values[key], lines[key] = value, line
    if not values:
        raise DataError(f"{name}: no {what} with a rubric", fix=fix)
    return values, without


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
