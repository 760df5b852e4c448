r"""SciSciNet's tables in a folder, read as delimited text (v1) or parquet (v2) under common names.

Files are identified by their names without prefixes and suffixes of exports (`SciSciNet_PaperReferences.tsv.gz`,
`tinker_sciscinet_papers_alpha.parquet`), columns without case and underscores. An empty value, "nan", "null", "none"
and "\N" are null.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tinsmith.data.losses import Tally
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Delimited, Layout, Rows, read_layout
from tinsmith.data.sources.kinds import NULLS
from tinsmith.data.sources.names import plain, suggested
from tinsmith.data.sources.parquet import parquet_columns, parquet_frames
from tinsmith.data.sources.streams import PACKED_ENDINGS
from tinsmith.types.errors import DataError

_ENDINGS = (".parquet", *(f".{kind}{packed}" for kind in ("tsv", "txt", "csv") for packed in ("", *PACKED_ENDINGS)))
_NOISE = frozenset({"sciscinet", "tinker", "alpha", "v1", "v2"})
_NULLS = sorted(NULLS)
_BATCH = 50_000


class Table(enum.Enum):
    """Tables to read, with their file names."""

    PAPERS = ("papers",)
    DETAILS = ("paperdetails", "papertitleabstract", "papertitleabstracts", "papertexts", "paperabstracts")
    REFERENCES = ("paperrefs", "paperreferences", "papercitations")
    PAPER_FIELDS = ("paperfields",)
    FIELDS = ("fields",)
    JOURNALS = ("journals", "sources")
    PAPER_JOURNALS = ("papersources", "paperjournals")


@dataclass(frozen=True, slots=True)
class TableFile:
    """Table in a file."""

    path: Path
    columns: tuple[str, ...]
    """Columns in the file's order, under their plain names (`plain`)."""
    layout: Layout | None = None
    """Layout of a text file; None for parquet."""

    @property
    def name(self) -> str:
        """Name of the table in error messages."""
        return self.path.name

    def find(self, *names: str) -> str | None:
        """Return the first of `names` that is a column, or None."""
        return next((name for name in names if name in self.columns), None)

    def need(self, *names: str) -> str:
        """Return the first of `names` that is a column.

        Raises:
            DataError: none is; the message suggests a similar one.
        """
        column = self.find(*names)
        if column is None:
            raise DataError(
                f"{self.name} lacks a column",
                field=names[0],
                allowed=", ".join(names),
                fix=suggested(self.columns, names),
            )
        return column

    def rows(self, columns: list[str], complaints: Complaints, tally: Tally | None = None) -> Iterator[Rows]:
        """Read `columns`, batch by batch, with null words as null. The rows are counted in `tally`.

        Raises:
            DataError: it is damaged and `skip_bad` is not set, or a line is malformed and the build is strict.
        """
        texts = pl.col(pl.String)
        clean = pl.when(~texts.str.to_lowercase().is_in(_NULLS)).then(texts)
        with complaints.until_damage():
            for rows in self._parquet(columns) if self.layout is None else self._text(self.layout, complaints):
                if tally is not None:
                    tally.read += rows.frame.height
                yield Rows(rows.frame.select(columns).with_columns(clean), rows.numbers)

    def _text(self, layout: Layout, complaints: Complaints) -> Iterator[Rows]:
        return Delimited(self.path, self.name, self.columns, layout, header=True).rows(complaints)

    def _parquet(self, columns: list[str]) -> Iterator[Rows]:
        number = 1
        there = dict(zip(self.columns, parquet_columns(self.path, self.name), strict=True))
        wanted = {there[column]: column for column in columns}
        for batch in parquet_frames(self.path, self.name, list(wanted), _BATCH):
            yield Rows(batch.rename(wanted), np.arange(number, number + batch.height))
            number += batch.height


def find_tables(folder: Path) -> Mapping[Table, TableFile]:
    """Find the tables in `folder`.

    Raises:
        DataError: papers or references are missing, or a table exists twice.
    """
    known = {name: table for table in Table for name in table.value}
    tables: dict[Table, TableFile] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        table = known.get(_table_name(path))
        if table is None:
            continue
        if table in tables:
            raise DataError(
                f"two files hold the same table: {tables[table].name} and {path.name}",
                field="tables",
                fix="leave one of them in the folder",
            )
        tables[table] = _table(path)
    for table in (Table.PAPERS, Table.REFERENCES):
        if table not in tables:
            raise DataError(
                f"{folder} has no table {' or '.join(table.value)}",
                field="tables",
                allowed="SciSciNet's tables as .tsv, .csv, .txt, packed or not, or .parquet",
            )
    return tables


def _table_name(path: Path) -> str:
    ending = next((e for e in sorted(_ENDINGS, key=len)[::-1] if path.name.endswith(e)), None)
    if ending is None or not path.is_file():
        return ""
    words = re.split(r"[^a-z0-9]+", path.name.removesuffix(ending).lower())
    return "".join(word for word in words if word not in _NOISE)


def _table(path: Path) -> TableFile:
    layout = None if path.name.endswith(".parquet") else read_layout(path, path.name)
    names = parquet_columns(path, path.name) if layout is None else layout.first
    columns = tuple(plain(name) for name in names)
    if len(set(columns)) != len(columns):
        raise DataError(f"{path.name} has two columns of one name but for case and underscores")
    return TableFile(path, columns, layout)
