"""Field and concepts of a SciSciNet paper.

Its fields are sorted by (level, name, id), level 0 being the top: the first is its field, the next eight are its
concepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.losses import Tally
from tinsmith.data.sources.columns import id_column
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.sciscinet.tables import TableFile

CONCEPTS = 8
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TOP_AND_SUB = {"top": "0", "sub": "1"}  # names of levels 0 and 1 in v1


@dataclass(frozen=True, slots=True)
class PaperFields:
    """Fields of papers, as ranks in the sorted list of fields."""

    names: pl.Series
    """Rank -> name."""
    starts: NDArray[np.int64]
    """Start of each paper's ranks, and the end of the last. Shape (papers + 1,)."""
    ranks: NDArray[np.uint32]

    def of(self, papers: NDArray[np.integer]) -> pl.DataFrame:
        """Return `field` and `concepts` of papers, in order."""
        firsts, counts = self.starts[papers], np.diff(self.starts)[papers]
        taken = np.minimum(counts, CONCEPTS + 1)
        within = np.arange(taken.sum()) - np.repeat(np.cumsum(taken) - taken, taken)
        flat = pl.DataFrame(
            {
                "paper": np.repeat(np.arange(len(papers), dtype=np.uint32), taken),
                "name": self.names.gather(self.ranks[np.repeat(firsts, taken) + within]),
            }
        )
        found = flat.group_by("paper", maintain_order=True).agg(
            field=pl.col("name").first(), concepts=pl.col("name").slice(1)
        )
        everyone = pl.DataFrame({"paper": np.arange(len(papers), dtype=np.uint32)})
        joined = everyone.join(found, on="paper", how="left", maintain_order="left")
        return joined.select("field", pl.col("concepts").fill_null([]))


def read_paper_fields(
    papers: pl.Series, links: TableFile, fields: TableFile | None, complaints: Complaints
) -> PaperFields:
    """Read the fields of `papers` (ids, unique); without a table of fields the links must name them.

    Raises:
        DataError: a column is missing, or a table is damaged.
    """
    known = _fields(fields or links, complaints)
    places = pl.DataFrame({"paperid": papers}).with_row_index("paper")
    with complaints.table(links.name) as tally:
        keys = list(_keys(links, places, known, complaints, tally))
    complaints.require_met(links.name, sum(map(len, keys)))
    every = np.unique(np.concatenate(keys)) if keys else np.empty(0, np.uint64)
    counts = np.bincount((every >> _HALF).astype(np.int64), minlength=len(papers))
    starts = np.concatenate(([0], np.cumsum(counts)))
    return PaperFields(known["name"], starts, (every & _LOW).astype(np.uint32))


def _keys(
    links: TableFile, places: pl.DataFrame, known: pl.DataFrame, complaints: Complaints, tally: Tally
) -> Iterator[NDArray[np.uint64]]:
    """Yield known links of papers and fields: position of the paper in the upper half, rank of the field below."""
    paper_id, field_id = links.need("paperid"), links.need("fieldid")
    for rows in links.rows([paper_id, field_id], complaints, tally):
        ends = {"paperid": id_column(rows.frame[paper_id]), "fieldid": id_column(rows.frame[field_id])}
        frame = pl.DataFrame({name: column.values for name, column in ends.items()})
        frame = frame.join(places, on="paperid").join(known, on="fieldid")
        yield (frame["paper"].to_numpy().astype(np.uint64) << _HALF) | frame["rank"].to_numpy()


def _fields(table: TableFile, complaints: Complaints) -> pl.DataFrame:
    """Return the distinct fields, sorted: fieldid, name, level, rank."""
    table.need("fieldid")
    name = table.need("displayname", "fieldname", "name")
    level = table.need("level", "fieldlevel", "fieldtype")
    parts = list(_distinct(table, ["fieldid", name, level], complaints))
    every = pl.concat(parts).unique() if parts else pl.DataFrame(schema=["fieldid", name, level])
    words = pl.col(level).str.to_lowercase()
    ranked = every.select(
        "fieldid", name=pl.col(name), level=words.replace(_TOP_AND_SUB).cast(pl.Float64, strict=False)
    )
    ranked = ranked.drop_nulls(["fieldid", "name"]).sort("level", "name", "fieldid", nulls_last=True)
    return ranked.unique("fieldid", keep="first", maintain_order=True).with_row_index("rank")


def _distinct(table: TableFile, columns: list[str], complaints: Complaints) -> Iterator[pl.DataFrame]:
    for rows in table.rows(columns, complaints):
        ids = id_column(rows.frame["fieldid"]).values
        yield rows.frame.cast(pl.String).with_columns(fieldid=ids).unique()
