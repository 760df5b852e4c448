"""Reader of delimited text as frames of strings; lines with another number of fields are quarantined.

The first line decides: its separator is the first of tab, semicolon, comma, bar and space that is in it. Between
commas, semicolons and bars fields may be quoted; between tabs they are, where all fields of the first line are. Nothing
else is guessed: a field is the text between two separators, an empty one is null. A first line `sep=;` is a
spreadsheet's note of its separator, and not a row.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.lines import BOM, Block, read_blocks

_SEPARATORS = ("\t", ";", ",", "|", " ")
_NEVER_QUOTED = ("\t", " ")
_NOTE = re.compile(rb"sep=[\t;,| ]", re.IGNORECASE)
_LINE = 0x0A
_SPACE = 0x20
_MERGED = 8 << 20
_ROWS = 50_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table, and the numbers of their lines or records, from 1."""

    frame: pl.DataFrame
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a file, determined by its first line that is not a comment."""

    separator: str
    quoted: bool
    first: tuple[str, ...]
    """Fields of that line."""
    line: int
    """Number of that line; 0 if there is none."""
    comment: tuple[str, ...] = ()
    """Words of the last comment before it."""


def read_layout(path: Path, name: str, comments: tuple[bytes, ...] = ()) -> Layout:
    """Return the layout of a file; lines that begin with `comments` are skipped.

    Raises:
        DamagedFile: it cannot be read.
    """
    comment: tuple[str, ...] = ()
    for block in read_blocks(path, name):
        for number, raw in block.lines():
            line = raw.decode("utf-8", "replace")
            if _NOTE.fullmatch(raw):
                continue
            if comments and raw.startswith(comments):
                comment = tuple(line.lstrip("#% ").split())
                continue
            separator = next((one for one in _SEPARATORS if one in line), "\t")
            fields = line.split(separator)
            quoted = separator not in _NEVER_QUOTED or all(map(_is_quoted, fields))
            if quoted:
                with suppress(csv.Error, StopIteration):
                    fields = next(csv.reader([line], delimiter=separator))
            return Layout(separator, quoted, tuple(fields), number, comment)
    return Layout("\t", False, (), 0, comment)


@dataclass(frozen=True, slots=True)
class Delimited:
    """A file of delimited text."""

    path: Path
    name: str
    """Name of the file in error messages."""
    columns: Sequence[str]
    layout: Layout
    header: bool
    """True if the first line is a header."""
    comments: tuple[bytes, ...] = ()
    """Prefix of lines to skip."""
    full: bool = False
    """True if a line with an empty field is malformed."""

    def rows(self, complaints: Complaints) -> Iterator[Rows]:
        """Read the file, some megabytes at a time.

        Raises:
            DataError: it is damaged and `skip_bad` is not set, or a line is malformed and the build is strict.
        """
        if self.layout.quoted:
            yield from self._quoted_rows(complaints)
            return
        held: list[Block] = []
        size = 0
        with complaints.until_damage():
            for block in read_blocks(self.path, self.name):
                held.append(block)
                size += len(block.data)
                if size >= _MERGED:
                    yield self._rows(held, complaints)
                    held, size = [], 0
        if held:
            yield self._rows(held, complaints)

    def _rows(self, blocks: list[Block], complaints: Complaints) -> Rows:
        first, data = blocks[0].first, b"".join(block.data for block in blocks)
        if first > self.layout.line and self._is_regular(data):
            frame = self._frame(data)
            return Rows(frame, np.arange(first, first + frame.height))
        found = list(self._regular_lines(Block(first, data), complaints))
        frame = self._frame(b"\n".join(line for _, line in found))
        return Rows(frame, np.array([number for number, _ in found], dtype=np.int64))

    def _frame(self, data: bytes) -> pl.DataFrame:
        schema = dict.fromkeys(self.columns, pl.String())
        if not data:
            return pl.DataFrame(schema=schema)
        return pl.read_csv(data, has_header=False, separator=self.layout.separator, quote_char=None, schema=schema)

    def _is_regular(self, data: bytes) -> bool:
        """Return True if every line has all its fields and needs no special treatment."""
        if b"\r" in data or b"\0" in data or not _is_text(data):
            return False
        if any(data.startswith(mark) or b"\n" + mark in data for mark in (*self.comments, BOM)):
            return False
        mark = self.layout.separator.encode()
        gaps = (mark + mark, mark + b"\n", b"\n" + mark)
        if self.full and (mark in (data[:1], data[-1:]) or any(gap in data for gap in gaps)):
            return False
        content = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(content == _LINE)
        if content[-1] != _LINE:
            ends = np.append(ends, len(content))
        starts = np.concatenate(([0], ends[:-1] + 1))
        may_be_blank = np.flatnonzero(content[starts] <= _SPACE)
        if any(data[starts[line] : ends[line]].isspace() for line in may_be_blank.tolist()):
            return False
        before = np.searchsorted(np.flatnonzero(content == mark[0]), ends)
        return bool((np.diff(before, prepend=0) == len(self.columns) - 1).all())

    def _regular_lines(self, block: Block, complaints: Complaints) -> Iterator[tuple[int, bytes]]:
        mark = self.layout.separator.encode()
        for number, line in block.lines():
            if self._is_skipped(number, line):
                continue
            fields = line.split(mark)
            if not _is_text(line):
                reason = "not UTF-8"
            elif b"\0" in line or b"\r" in line:
                reason = "a control character"
            else:
                reason = self._reason(fields)
            if reason is None:
                yield number, line
            else:
                complaints.malformed(self.name, number, reason, line.decode("utf-8", "replace"))

    def _is_skipped(self, number: int, line: bytes) -> bool:
        if number <= self.layout.line and (_NOTE.fullmatch(line) or (self.header and number == self.layout.line)):
            return True
        return bool(self.comments and line.startswith(self.comments))

    def _reason(self, fields: Sequence[object]) -> str | None:
        """Return the reason that a line is malformed."""
        if len(fields) != len(self.columns):
            return f"{len(fields)} {'field' if len(fields) == 1 else 'fields'} for {len(self.columns)}"
        return "an empty field" if self.full and not all(fields) else None

    def _quoted_rows(self, complaints: Complaints) -> Iterator[Rows]:
        """Read rows with quoted fields, which may contain separators and line feeds."""
        schema = dict.fromkeys(self.columns, pl.String())
        rows = self._fields(complaints)
        with complaints.until_damage():
            while some := list(islice(rows, _ROWS)):
                frame = pl.DataFrame(
                    [[one or None for one in fields] for _, fields in some], schema=schema, orient="row"
                )
                yield Rows(frame, np.array([number for number, _ in some], dtype=np.int64))

    def _fields(self, complaints: Complaints) -> Iterator[tuple[int, list[str]]]:
        numbers: list[int] = []

        def lines() -> Iterator[str]:
            for block in read_blocks(self.path, self.name):
                for number, line in block.lines():
                    if not (not numbers and self._is_skipped(number, line)):
                        numbers.append(number)
                        yield line.decode("utf-8", "replace") + "\n"

        reader = csv.reader(lines(), delimiter=self.layout.separator, strict=True)
        while True:
            numbers.clear()
            try:
                fields = next(reader)
                reason = self._reason(fields)
            except StopIteration:
                return
            except csv.Error as error:
                fields, reason = [], str(error)
            if reason is None and any("\ufffd" in one or "\0" in one for one in fields):
                reason = "not UTF-8"
            if reason is None:
                yield numbers[0], fields
            else:
                complaints.malformed(
                    self.name, numbers[0], reason, self.layout.separator.join(fields), max(1, len(numbers))
                )


def _is_quoted(field: str) -> bool:
    return len(field) > 1 and field[0] == field[-1] == '"'


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
