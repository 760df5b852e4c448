"""SciSciNet's table of papers as columns of the corpus: years, dates, journals and published scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl

from tinsmith.data.progress import Progress
from tinsmith.data.sources.columns import (
    Column,
    count_column,
    date_column,
    flag_column,
    id_column,
    real_column,
    text_column,
    year_column,
)
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Rows
from tinsmith.data.sources.sciscinet.tables import Table, TableFile
from tinsmith.types.errors import DataError

_NUMBERS: dict[str, tuple[tuple[str, ...], Callable[[pl.Series], Column]]] = {
    "cited_by_count": (("citedbycount", "citationcount"), count_column),
    "published_disruption": (("disruption",), real_column),
    "published_z_median": (("atypmedianz",), real_column),
    "published_z_p10": (("atyp10pctz",), real_column),
    "published_pairs": (("atyppairs",), count_column),
}
"""Columns of the corpus -> their names in the table, in order of preference, and their readers."""


@dataclass(frozen=True, slots=True)
class Journals:
    """Names of journals, and the journal of each paper if the table of papers lacks it."""

    names: pl.DataFrame
    """Columns journal, venue."""
    of_paper: pl.DataFrame | None
    """Columns id, journal."""


def read_journals(tables: Mapping[Table, TableFile], complaints: Complaints) -> Journals | None:
    """Read the names of journals, if there are any.

    Raises:
        DataError: a column is missing, or a table is damaged.
    """
    table = tables.get(Table.JOURNALS)
    if table is None:
        return None
    journal, name = (table.need("journalid", "sourceid"), table.need("journalname", "displayname", "name"))
    every = _read(table, {"journal": journal, "venue": name}, complaints)
    names = every.sort("journal", "venue").unique("journal", keep="first")
    links = tables.get(Table.PAPER_JOURNALS)
    if links is None:
        return Journals(names, None)
    columns = {"id": links.need("paperid"), "journal": links.need("journalid", "sourceid")}
    first = _read(links, columns, complaints).sort("id", "journal").unique("id", keep="first")
    return Journals(names, first)


def read_papers(
    tables: Mapping[Table, TableFile], journals: Journals | None, complaints: Complaints, progress: Progress
) -> pl.DataFrame:
    """Read all papers, without their texts: id, year, date, type, venue, counts, scores, language and flags.

    A row with an unreadable id or year is quarantined; other unreadable values are null and counted.

    Raises:
        DataError: a column is missing, the table is damaged or empty, or too much of it is lost.
    """
    table = tables[Table.PAPERS]
    wanted = _Wanted.of(table)
    parts: list[pl.DataFrame] = []
    with complaints.table(table.name) as tally:
        for rows in table.rows(wanted.columns, complaints):
            part = wanted.read(rows, table.name, complaints)
            for name, cause in (("id", "without an id"), ("year", "without a year")):
                if gaps := part[name].null_count():
                    tally.lose(cause, gaps)
            tally.read += part.select(pl.all_horizontal(pl.col("id", "year").is_not_null()).sum()).item()
            parts.append(_with_venue(part, journals))
            progress.advance(part.height)
    if not parts:
        raise DataError(f"{table.name} holds no paper")
    return pl.concat(parts)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Columns of the table of papers, under its own names."""

    paper_id: str
    year: str
    date: str | None
    numbers: Mapping[str, str]
    texts: Mapping[str, str]
    flags: Mapping[str, str]

    @classmethod
    def of(cls, table: TableFile) -> _Wanted:
        """Find the columns."""
        texts = (("type", "doctype"), ("language", "language"), ("journal", "journalid"))
        return cls(
            table.need("paperid", "id"),
            table.need("year", "publicationyear"),
            table.find("date", "publicationdate"),
            {name: c for name, (names, _) in _NUMBERS.items() if (c := table.find(*names))},
            {name: c for name, wanted in texts if (c := table.find(wanted))},
            {name: c for name in ("retracted", "paratext") if (c := table.find(f"is{name}"))},
        )

    @property
    def columns(self) -> list[str]:
        """Return all columns, each once."""
        date = [] if self.date is None else [self.date]
        every = (self.paper_id, self.year, *date, *self.numbers.values(), *self.texts.values(), *self.flags.values())
        return list(dict.fromkeys(every))

    def read(self, rows: Rows, file: str, complaints: Complaints) -> pl.DataFrame:
        """Return some rows' papers under the corpus's names."""
        rows = _with_good(rows, {self.paper_id: ("id", id_column), self.year: ("year", year_column)}, file, complaints)
        reader = ColumnReader(rows, file, complaints)
        years = rows.frame[self.year]
        columns = {"id": rows.frame[self.paper_id], "year": years}
        if self.date is not None:
            columns["date"] = reader.read(self.date, lambda values: date_column(values, years), "bad_dates")
        columns |= {name: reader.read(column, _NUMBERS[name][1]) for name, column in self.numbers.items()}
        columns |= {
            name: reader.read(column, id_column if name == "journal" else text_column)
            for name, column in self.texts.items()
        }
        columns |= {name: reader.read(column, flag_column) for name, column in self.flags.items()}
        return pl.DataFrame([column.alias(name) for name, column in columns.items()])


@dataclass(frozen=True, slots=True)
class ColumnReader:
    """Reader of columns of some rows; unreadable values are null and counted."""

    rows: Rows
    file: str
    complaints: Complaints

    def read(self, column: str, kind: Callable[[pl.Series], Column], counter: str = "bad_values") -> pl.Series:
        """Read a column by one of the functions of `columns`."""
        values = self.rows.frame[column]
        read = kind(values)
        if bad := int(read.bad.sum()):
            place = int(read.bad.arg_true()[0])
            number = int(self.rows.numbers[place])
            self.complaints.lost_value(counter, self.file, number, f"{column}: {values[place]}", bad)
        return read.values


def _with_good(
    rows: Rows, columns: Mapping[str, tuple[str, Callable[[pl.Series], Column]]], file: str, complaints: Complaints
) -> Rows:
    """Return the rows with these columns read; rows with an unreadable value in them are quarantined."""
    frame, bad = rows.frame, pl.repeat(False, rows.frame.height, dtype=pl.Boolean(), eager=True)
    for column, (name, kind) in columns.items():
        values = rows.frame[column]
        read = kind(values)
        for place in (read.bad & ~bad).arg_true().to_list():
            complaints.malformed(file, int(rows.numbers[place]), f"{name} cannot be read", str(values[place]))
        bad = bad | read.bad
        frame = frame.with_columns(read.values.alias(column))
    return Rows(frame.filter(~bad), rows.numbers[(~bad).to_numpy()])


def _with_venue(frame: pl.DataFrame, journals: Journals | None) -> pl.DataFrame:
    if journals is None:
        return frame.drop("journal", strict=False)
    if "journal" not in frame.columns:
        if journals.of_paper is None:
            return frame
        frame = frame.join(journals.of_paper, on="id", how="left", maintain_order="left")
    named = frame.join(journals.names, on="journal", how="left", maintain_order="left")
    return named.drop("journal")


def _read(table: TableFile, columns: Mapping[str, str], complaints: Complaints) -> pl.DataFrame:
    parts = [
        pl.DataFrame([id_column(rows.frame[c]).values.alias(name) for name, c in columns.items()])
        for rows in table.rows(list(columns.values()), complaints)
    ]
    empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.String()))
    return pl.concat([empty, *parts]).drop_nulls()
