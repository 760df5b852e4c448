"""Journals of each paper's references, in blocks of citing years that are compared with each other.

Journals are numbered by name, so that numbers, and the order of every sum over them, do not depend on the order of the
input. References to papers without a journal are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.types.errors import DataError

_NONE = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Block:
    """Papers of one or more citing years, and their R references with a journal."""

    first_year: int
    begin: int
    """First of the corpus's rows [begin, end)."""
    end: int
    pointer: NDArray[np.uint32]
    """Offset of each paper's first reference, (end - begin + 1,)."""
    journal: NDArray[np.uint32]
    """(R,), in [0, len(journals))."""
    stratum: NDArray[np.uint32]
    """Year of the cited paper, (R,), in [0, len(years))."""
    journals: NDArray[np.intp]
    """Corpus-wide numbers of the journals that occur, ascending."""
    years: NDArray[np.intp]
    """Cited years that occur, ascending."""


@dataclass(frozen=True, slots=True)
class JournalReferences:
    """Journals, years and references of N papers in row order, E references in all."""

    years: NDArray[np.int32]
    names: pl.Series
    """Names of the journals, sorted."""
    journals: NDArray[np.uint32]
    """Journal of each paper as a position in `names`; 2**32 - 1 for none."""
    pointer: NDArray[np.int64]
    """Offset in `cited` of each paper's first reference, (N + 1,)."""
    cited: NDArray[np.uint32]

    @classmethod
    def of(
        cls, years: NDArray[np.int32], venue: pl.Series, citing: NDArray[np.uint32], cited: NDArray[np.uint32]
    ) -> JournalReferences:
        """Build from a corpus's columns `year` (ascending) and `venue`, and its sorted edges.

        Raises:
            DataError: years or edges are not sorted.
        """
        if (years[1:] < years[:-1]).any() or (citing[1:] < citing[:-1]).any():
            raise DataError("papers or edges are not sorted", fix="build the corpus again")
        names = venue.drop_nulls().unique().sort()
        codes = venue.cast(pl.Enum(names)).to_physical().cast(pl.UInt32).fill_null(_NONE)
        counts = np.bincount(citing, minlength=len(years))
        pointer = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        return cls(years, names, codes.to_numpy(), pointer, cited)

    def blocks(self, pool_years: int) -> Iterator[Block]:
        """Yield a block for every `pool_years` calendar years (1990-1994, 1995-1999 for 5) that have references."""
        keys = self.years // pool_years
        bounds = [0, *(np.flatnonzero(np.diff(keys)) + 1).tolist(), len(keys)]
        for begin, end in pairwise(bounds):
            first, last = int(self.pointer[begin]), int(self.pointer[end])
            if first < last:
                yield self._block(begin, end, int(keys[begin]) * pool_years)

    def _block(self, begin: int, end: int, first_year: int) -> Block:
        rows = self.pointer[begin : end + 1]
        cited = self.cited[rows[0] : rows[-1]]
        journal = self.journals[cited]
        mapped = journal != _NONE
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(mapped)])
        codes, journals = _renumbered(journal[mapped])
        strata, years = _renumbered(self.years[cited[mapped]])
        pointer = before[rows - rows[0]].astype(np.uint32)
        return Block(first_year, begin, end, pointer, codes, strata, journals, years)


def _renumbered(values: NDArray[np.uint32] | NDArray[np.int32]) -> tuple[NDArray[np.uint32], NDArray[np.intp]]:
    """Return each value's position among the distinct values, and those, ascending."""
    if not len(values):
        return values.astype(np.uint32), np.empty(0, np.intp)
    least = int(values.min())
    offsets = (values - least).astype(np.intp)
    occurs = np.zeros(int(offsets.max()) + 1, np.bool_)
    occurs[offsets] = True
    place = (np.cumsum(occurs) - 1).astype(np.uint32)
    return place[offsets], np.flatnonzero(occurs) + least
