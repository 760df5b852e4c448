"""Paper as a source delivers it: the columns of `papers.parquet`, its references, and the record's time of change."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec


class Paper(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Record of a source in the corpus's terms (data/schema.py defines each column)."""

    id: str
    year: int | None
    """Year; a paper with None is dropped and counted (`no_year`), unless it is excluded."""
    title: str | None = None
    abstract: str | None = None
    date: dt.date | None = None
    venue: str | None = None
    field: str | None = None
    concepts: Sequence[str] = ()
    type: str | None = None
    language: str | None = None
    cited_by_count: int | None = None
    published_disruption: float | None = None
    published_z_median: float | None = None
    published_z_p10: float | None = None
    published_pairs: int | None = None
    cause: str | None = None
    references: Sequence[str] = ()
    """Ids of the papers it cites; they belong to this record and are dropped with an outdated copy."""
    updated: str | None = None
    """Time of the source's last change, as text that sorts by time; the latest copy of an id is used."""
    excluded: str | None = None
    """Reason to exclude the paper: one of the card's counters. It still replaces its older copies."""
