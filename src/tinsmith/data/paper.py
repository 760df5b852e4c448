"""One paper as a source hands it over: the columns of `papers.parquet`, what it cites, and how new the record is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec


class Paper(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A record of a source, in the corpus's words (data/schema.py has each column's meaning)."""

    id: str
    year: int | None
    """None: the paper is dropped and counted (`no_year`)."""
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
    """Ids of the papers it cites; they belong to this record, so a stale copy's references go with it."""
    updated: str | None = None
    """Time of the source's last change, as text that sorts in time; the latest copy of an id is kept."""
    excluded: str | None = None
    """Reason to leave the paper out: one of the card's counters. It still takes the place of its older copies."""
