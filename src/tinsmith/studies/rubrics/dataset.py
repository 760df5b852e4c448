"""Files of rubric tasks (JSON, JSONL, CSV, TSV, Parquet, Arrow), read whole, and dealt to two sides by task id."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Final, cast

from tinsmith.studies.rubrics.record_files import JsonRecord, checked_file, decode, gathered, read_records
from tinsmith.studies.rubrics.task import RubricTask, task_of
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

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
    def read(record: dict[str, object]) -> tuple[str, RubricTask] | None:
        task = task_of(record)
        return None if task is None else (task.task_id, task)

    fix = "give each record prompt and rubrics, or 'rubric - 1. criterion'"
    found, without = gathered(records, read, name=name, what="task", place=place, fix=fix)
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
    return [
        JsonRecord(line=number, value=cast("dict[str, object]", row))
        for number, row in enumerate(table.iter_rows(named=True), 1)
    ]


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
    order = sorted(tasks, key=lambda task: (_rank(task, data_seed), task.task_id))
    # As the ratio is written: 0.29 of 100 tasks are 29.
    count = int(Fraction(repr(float(train_ratio))) * len(tasks))
    if sides == 2:
        count = min(max(count, 1), len(tasks) - 1)
    return RubricSplit(
        train=tuple(order[:count]), test=tuple(order[count:]), train_ratio=float(train_ratio), data_seed=data_seed
    )


def _rank(task: RubricTask, seed: int) -> int:
    return derive(seed, "rubrics", "split", task.task_id)
