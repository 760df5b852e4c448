"""Selection among copies of a paper, and the order of rows.

Of several records with one id the latest `updated` is selected; ties are resolved by exclusion first, then the longer
text, then the greater hash over content and references, so that the order of the input does not matter. Rows are sorted
by (year, date with missing first, id).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.last_year import year_changed
from tinsmith.data.spill import NOWHERE, PART_COLUMNS, Spill, read_part

BUCKET_BYTES = 64 << 20
"""Texts are sorted and written in ranges of rows with about this many bytes."""
_ROW_BYTES = 128  # size of a row besides its title and abstract
_KEYS = ("ordinal", "size", "updated", "excluded", "id", "year", "date")


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows of a corpus: their records, and the row of each ordinal."""

    keys: pl.DataFrame
    """Keys in row order: ordinal, size, id, year, date."""
    row_of_id: NDArray[np.uint32]
    """Row of the selected record of each ordinal's id; NOWHERE for a dropped paper."""
    superseded: NDArray[np.bool_]
    """True for each ordinal whose id has another, selected record."""
    dropped: Counter[str]
    """Counts of `duplicate_papers`, and of excluded papers by reason."""
    changed: int | None
    """Year in which the source last changed a record, if it reports that."""

    def buckets(self) -> list[tuple[int, int]]:
        """Return ranges of rows (start, stop) of about BUCKET_BYTES of text each, at least one."""
        total = self.keys["size"].cast(pl.UInt64).to_numpy().cumsum()
        weight = total + np.arange(1, len(total) + 1, dtype=np.uint64) * _ROW_BYTES
        number = (weight - weight[:1]) // BUCKET_BYTES if len(weight) else weight
        cuts = np.flatnonzero(np.diff(number)) + 1
        return list(pairwise([0, *cuts.tolist(), self.keys.height]))


def order_rows(spill: Spill) -> RowOrder:
    """Select among copies and sort; reads only the parts' keys, and whole records only for ties."""
    none = pl.DataFrame(schema={name: PART_COLUMNS[name] for name in _KEYS})
    keys = pl.concat([none, *(read_part(path, *_KEYS) for path in spill.paper_parts)])
    copies = keys.filter(pl.col("id").is_duplicated())
    losers = _losers(copies, spill)
    superseded = np.zeros(spill.papers, dtype=np.bool_)
    superseded[losers["ordinal"].to_numpy()] = True
    keys = keys.join(losers, on="ordinal", how="anti")
    dropped = Counter(dict(keys["excluded"].drop_nulls().value_counts().iter_rows()))
    dropped["duplicate_papers"] = losers.height
    changed = year_changed(keys["updated"].str.slice(0, 5).unique().to_list())
    keys = keys.filter(pl.col("excluded").is_null()).drop("updated", "excluded")
    keys = keys.sort("year", "date", "id", nulls_last=False)
    row_of_id = np.full(spill.papers, NOWHERE, dtype=np.uint32)
    row_of_id[keys["ordinal"].to_numpy()] = np.arange(keys.height, dtype=np.uint32)
    stays = copies.join(losers, on="ordinal", how="anti").select("id", stays="ordinal")
    pairs = copies.select("id", "ordinal").join(stays, on="id")
    row_of_id[pairs["ordinal"].to_numpy()] = row_of_id[pairs["stays"].to_numpy()]
    return RowOrder(keys, row_of_id, superseded, dropped, changed)


def _losers(copies: pl.DataFrame, spill: Spill) -> pl.DataFrame:
    """Return the ordinals of the copies that are not selected."""
    latest = pl.col("updated").fill_null("").max().over("id")
    newest = copies.filter(pl.col("updated").fill_null("") == latest)
    tied = newest.filter(pl.col("id").is_duplicated())
    hashes = _content_hashes(tied.select("ordinal"), spill)
    stays = (
        newest.join(hashes, on="ordinal", how="left")
        .sort("id", pl.col("excluded").is_null(), "size", "content", descending=[False, False, True, True])
        .unique("id", keep="first", maintain_order=True)
    )
    return copies.join(stays, on="ordinal", how="anti").select("ordinal")


def _content_hashes(tied: pl.DataFrame, spill: Spill) -> pl.DataFrame:
    """Return `ordinal` and `content`, a hash over the whole record, reading part by part."""
    hashes: dict[int, bytes] = {}
    if tied.height:
        references = dict(_reference_hashes(tied, spill))
        for path in spill.paper_parts:
            rows = read_part(path).join(tied, on="ordinal", how="semi")
            for ordinal, *values in rows.iter_rows():
                content = msgspec.json.encode(values) + references.get(ordinal, b"")
                hashes[ordinal] = hashlib.sha256(content).digest()
    schema = {"ordinal": pl.UInt32(), "content": pl.Binary()}
    return pl.DataFrame({"ordinal": list(hashes), "content": list(hashes.values())}, schema=schema)


def _reference_hashes(tied: pl.DataFrame, spill: Spill) -> Iterator[tuple[int, bytes]]:
    """Return hashes of sorted reference lists; a record's list is in one part, since records are added whole."""
    for part in spill.edge_parts:
        if part.bound:
            edges = part.read().join(tied, left_on="citing", right_on="ordinal", how="semi")
            for ordinal, cited in edges.group_by("citing").agg(pl.col("cited").sort()).iter_rows():
                yield ordinal, hashlib.sha256(msgspec.json.encode(cited)).digest()
