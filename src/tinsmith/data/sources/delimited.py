"""Reads tab-separated text, plain or gzip, as frames of strings; lines with another number of fields are set aside.

Nothing is quoted and nothing guessed: a field is what stands between two tabs, an empty one is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.lines import Block, read_blocks

_TAB, _LINE = 0x09, 0x0A
_MERGED = 8 << 20


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a table, and the numbers of their lines or records, from 1."""

    frame: pl.DataFrame
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Delimited:
    """A tab-separated file."""

    path: Path
    name: str
    """How errors call it."""
    columns: Sequence[str]
    header: bool
    """Whether the first line is a header; it is skipped."""
    comment: bytes | None = None
    """Lines that begin so are skipped."""
    full: bool = False
    """Whether a line with an empty field is malformed."""

    def rows(self, complaints: Complaints) -> Iterator[Rows]:
        """Read the file, some megabytes at a time.

        Raises:
            DataError: it ends early or does not decompress, and that is not to be skipped; a line is malformed,
                and the build is strict.
        """
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
        if first > 1 and self._is_regular(data):
            frame = self._frame(data)
            return Rows(frame, np.arange(first, first + frame.height))
        found = list(self._regular_lines(Block(first, data), complaints))
        frame = self._frame(b"\n".join(line for _, line in found))
        return Rows(frame, np.array([number for number, _ in found], dtype=np.int64))

    def _frame(self, data: bytes) -> pl.DataFrame:
        schema = dict.fromkeys(self.columns, pl.String())
        if not data:
            return pl.DataFrame(schema=schema)
        return pl.read_csv(data, has_header=False, separator="\t", quote_char=None, schema=schema)

    def _is_regular(self, data: bytes) -> bool:
        """Whether every line has all its fields, and nothing in it needs a closer look."""
        if b"\r" in data or not _is_text(data):
            return False
        if self.comment is not None and (data.startswith(self.comment) or b"\n" + self.comment in data):
            return False
        if self.full and (data[:1] == b"\t" or any(gap in data for gap in (b"\t\t", b"\t\n", b"\n\t"))):
            return False
        content = np.frombuffer(data, dtype=np.uint8)
        ends = np.flatnonzero(content == _LINE)
        if content[-1] != _LINE:
            ends = np.append(ends, len(content))
        before = np.searchsorted(np.flatnonzero(content == _TAB), ends)
        return bool((np.diff(before, prepend=0) == len(self.columns) - 1).all())

    def _regular_lines(self, block: Block, complaints: Complaints) -> Iterator[tuple[int, bytes]]:
        for number, line in block.lines():
            if (self.header and number == 1) or (self.comment and line.startswith(self.comment)):
                continue
            fields = line.split(b"\t")
            if not _is_text(line):
                reason = "not UTF-8"
            elif len(fields) != len(self.columns):
                reason = f"{len(fields)} fields for {len(self.columns)}"
            elif self.full and not all(fields):
                reason = "an empty field"
            else:
                yield number, line
                continue
            complaints.malformed(self.name, number, reason, line.decode("utf-8", "replace"))


def read_header(path: Path, name: str) -> list[str]:
    """Return the fields of a file's first line.

    Raises:
        DamagedFile: it cannot be read.
    """
    for block in read_blocks(path, name):
        for _, line in block.lines():
            return line.decode("utf-8", "replace").split("\t")
    return []


def _is_text(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
