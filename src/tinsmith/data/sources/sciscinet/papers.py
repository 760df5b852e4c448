"""SciSciNet's table of papers as columns of the corpus: years, dates, journals and the published scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from tinsmith.data.progress import Progress
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Rows
from tinsmith.data.sources.sciscinet.tables import Table, TableFile

_NUMBERS: dict[str, tuple[tuple[str, ...], pl.DataType]] = {
    "year": (("year",), pl.Int32()),
    "cited_by_count": (("citedbycount", "citationcount"), pl.Int64()),
    "published_disruption": (("disruption",), pl.Float64()),
    "published_z_median": (("atypmedianz",), pl.Float64()),
    "published_z_p10": (("atyp10pctz",), pl.Float64()),
    "published_pairs": (("atyppairs",), pl.Int64()),
}
"""Column of the corpus -> its names in the table, the first that is there counts, and its type."""
_DATES = ("%Y-%m-%d", "%Y/%m/%d")
_YES = ("true", "1", "1.0", "t", "yes")


@dataclass(frozen=True, slots=True)
class Journals:
    """Names of journals, and which paper is in which where the table of papers does not say."""

    names: pl.DataFrame
    """journal, venue."""
    of_paper: pl.DataFrame | None
    """id, journal."""


def read_journals(tables: Mapping[Table, TableFile], complaints: Complaints) -> Journals | None:
    """Read the names of journals, if they are there.

    Raises:
        DataError: a column is missing, or a table is damaged.
    """
    table = tables.get(Table.JOURNALS)
    if table is None:
        return None
    journal, name = (table.need("journalid", "sourceid"), table.need("journalname", "displayname", "name"))
    names = _read(table, {"journal": journal, "venue": name}, complaints).unique(
        "journal", keep="first", maintain_order=True
    )
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

    A row with a number that is none is set aside; a date that is none is null and counted (`bad_dates`).

    Raises:
        DataError: a column is missing, or the table is damaged.
    """
    table = tables[Table.PAPERS]
    paper_id = table.need("paperid", "id")
    table.need("year")
    numbers = {name: c for name, (names, _) in _NUMBERS.items() if (c := table.find(*names))}
    texts = {
        name: c
        for name, wanted in (("type", "doctype"), ("language", "language"), ("journal", "journalid"))
        if (c := table.find(wanted))
    }
    flags = {name: c for name in ("retracted", "paratext") if (c := table.find(f"is{name}"))}
    date = table.find("date")
    wanted = [paper_id, *numbers.values(), *texts.values(), *flags.values(), *([date] if date else [])]
    parts: list[pl.DataFrame] = []
    for rows in table.rows(list(dict.fromkeys(wanted)), complaints):
        good = _without_bad_numbers(rows, numbers, table.name, complaints)
        frame = good.select(
            id=pl.col(paper_id).cast(pl.String),
            date=_date(good, date, complaints),
            **{name: _number(column, _NUMBERS[name][1]) for name, column in numbers.items()},
            **{name: pl.col(column).cast(pl.String) for name, column in texts.items()},
            **{name: yes(column) for name, column in flags.items()},
        )
        parts.append(_with_venue(frame, journals))
        progress.advance(frame.height)
    return pl.concat(parts)


def yes(column: str) -> pl.Expr:
    """Whether a flag, of whatever type, is set."""
    return pl.col(column).cast(pl.String).str.to_lowercase().is_in(_YES).fill_null(False)


def _number(column: str, dtype: pl.DataType) -> pl.Expr:
    value = pl.col(column).cast(pl.Float64, strict=False)
    value = pl.when(value.is_finite()).then(value)
    if dtype == pl.Int32():
        value = pl.when(value.is_between(1, 9999)).then(value)
    return value.cast(dtype, strict=False)


def _without_bad_numbers(rows: Rows, numbers: Mapping[str, str], file: str, complaints: Complaints) -> pl.DataFrame:
    frame = rows.frame
    for name, column in numbers.items():
        if frame[column].dtype != pl.String:
            continue
        bad = frame.select(
            pl.col(column).is_not_null() & pl.col(column).cast(pl.Float64, strict=False).is_null()
        ).to_series()
        if bad.any():
            places = bad.arg_true().to_list()
            for place in places:
                value = frame[column][place]
                complaints.malformed(file, int(rows.numbers[place]), f"{name} is no number", value)
            kept = ~bad
            frame = frame.filter(kept)
            rows = Rows(frame, rows.numbers[kept.to_numpy()])
    return frame


def _date(frame: pl.DataFrame, column: str | None, complaints: Complaints) -> pl.Expr | pl.Series:
    if column is None:
        return pl.lit(None, dtype=pl.Date())
    dates = frame[column]
    if dates.dtype != pl.String:
        return dates.cast(pl.Date)
    read = (
        pl.DataFrame({"date": dates.str.slice(0, 10)})
        .select(pl.coalesce(pl.col("date").str.to_date(form, strict=False) for form in _DATES))
        .to_series()
    )
    complaints.writer.count("bad_dates", read.null_count() - dates.null_count())
    return read


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
        rows.frame.select(**{name: pl.col(c).cast(pl.String) for name, c in columns.items()})
        for rows in table.rows(list(columns.values()), complaints)
    ]
    empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.String()))
    return pl.concat([empty, *parts]).drop_nulls()
