"""Catalogue records of synthetic papers without their texts: id, date, journal, field, concepts.

Ids are a permutation of seven-digit numbers, so that their order is not the order of time.
"""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.sources.world.draws import threshold, words, zipf
from tinsmith.data.sources.world.fields import FIELD_JOURNALS, GENERALIST_JOURNALS, field_name, journals, topic_name
from tinsmith.data.sources.world.papers import CAUSES, FIRST_YEAR, YEARS, WorldPapers
from tinsmith.data.sources.world.spec import ID_NUMBERS, WorldSpec
from tinsmith.types.seeds import derive

_GENERALIST: Final = 0.05


class Records:
    """Catalogue of one world."""

    def __init__(self, spec: WorldSpec, papers: WorldPapers, seed: int) -> None:
        self._papers = papers
        count = len(papers.field)
        self._id_numbers = _permuted(count, seed)
        self._year = np.repeat(np.arange(YEARS), np.diff(papers.year_start)) + FIRST_YEAR
        self._day = _days(papers.year_start)
        self._venue = _venues(spec.fields, papers, seed)
        fields = range(spec.fields)
        names = [name for field in fields for name in journals(field)]
        self._venues = pl.Series([*names, *GENERALIST_JOURNALS])
        self._fields = pl.Series([field_name(field) for field in fields])
        self._topics = pl.Series([topic_name(f, t) for f in fields for t in range(spec.topics)])
        self._causes = pl.Series([str(cause) for cause in CAUSES])
        # A novel paper is also about a topic of its second field.
        self._second_topic = papers.topic + (papers.second_field - papers.field) * spec.topics

    def frame(self, start: int, stop: int) -> pl.DataFrame:
        """Return the columns of papers `start` .. `stop` that depend on neither text nor citations."""
        papers, part = self._papers, slice(start, stop)
        number = pl.Series(self._id_numbers[part]).cast(pl.String)
        topics, second = papers.topic[part], self._second_topic[part]
        concepts = pl.DataFrame({"first": self._topics[topics], "second": self._topics[second]}).select(
            pl.concat_list("first", "second").list.unique(maintain_order=True)
        )
        return pl.DataFrame(
            {
                "id": "S" + number.str.zfill(7),
                "year": self._year[part],
                "date": pl.Series(self._day[part]).cast(pl.Date),
                "venue": self._venues[self._venue[part]],
                "field": self._fields[papers.field[part]],
                "concepts": concepts.to_series(),
                "cause": self._causes[papers.cause[part]],
            }
        ).with_columns(type=pl.lit("article"), language=pl.lit("en"))


def _permuted(count: int, seed: int) -> NDArray[np.int64]:
    """Return `count` distinct numbers below ID_NUMBERS: an affine map with a multiplier coprime to it."""
    draw = derive(seed, "synthetic", "ids")
    # ID_NUMBERS is a power of ten: numbers that end in 1, 3, 7 or 9 are coprime to it.
    factor = draw % (ID_NUMBERS // 20) * 10 + ID_NUMBERS // 4 + 3
    shift = (draw >> 32) % ID_NUMBERS
    return (np.arange(count, dtype=np.int64) * factor + shift) % ID_NUMBERS


def _days(year_start: NDArray[np.int64]) -> NDArray[np.int32]:
    """Spread the papers of each year over its days, in time order; days since 1970-01-01."""
    parts: list[NDArray[np.int32]] = []
    for year, (first, last) in enumerate(pairwise(year_start.tolist())):
        begins, ends = (dt.date(FIRST_YEAR + year + later, 1, 1) for later in (0, 1))
        day = np.arange(last - first) * (ends - begins).days // max(1, last - first)
        parts.append((day + (begins - dt.date(1970, 1, 1)).days).astype(np.int32))
    return np.concatenate(parts)


def _venues(fields: int, papers: WorldPapers, seed: int) -> NDArray[np.int32]:
    """Return positions in the list of all fields' journals, the generalist ones last."""
    count = len(papers.field)
    rank = zipf(FIELD_JOURNALS, "0.9").draw(words(derive(seed, "synthetic", "journal"), 0, count))
    bits = words(derive(seed, "synthetic", "generalist"), 0, count)
    general = (bits >> np.uint64(32)) < threshold(_GENERALIST)
    which = ((bits & np.uint64(0xFFFF)) * np.uint64(len(GENERALIST_JOURNALS))) >> np.uint64(16)
    of_field = papers.field.astype(np.int64) * FIELD_JOURNALS + rank
    first_general = FIELD_JOURNALS * fields
    return np.where(general, first_general + which.astype(np.int64), of_field).astype(np.int32)
