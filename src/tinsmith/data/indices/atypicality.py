"""Atypicality of a paper's pairs of cited journals: z against chance, its median and its 10th percentile.

Uzzi et al. 2013 (doi 10.1126/science.1240474): a pair's count among the papers of one year is compared with networks
in which citations are switched so that each paper keeps how many papers of each year it cites. Switching amounts to
shuffling journals within (citing year, cited year). The median z is a paper's conventionality, its 10th percentile
its novelty: lower is more novel. Pairs within one journal count; a paper needs two references with a journal.

Deviation: instead of ten random networks, the default is the closed form of that null's mean (`native/pair_null.hpp`)
with the mean as variance, which does not depend on a seed and leaves no pair undefined. A pair whose count no shuffle
changes has z = 0 there, which says nothing: a paper without another pair has no scores.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.indices.journal_pairs import Block, JournalReferences
from tinsmith.data.progress import Progress, Silent
from tinsmith.ops import extension
from tinsmith.types.seeds import derive

if TYPE_CHECKING:  # absent if the extension is not built
    from tinsmith._native import JournalPairs


class NullModel(enum.StrEnum):
    """Null model with which a pair's count is compared."""

    CLOSED = "closed"  # mean over all shuffles, exactly
    SWITCHING = "switching"  # mean and standard deviation over some random shuffles


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """Null model and its random settings; `nulls` and `seed` apply to SWITCHING only."""

    model: NullModel = NullModel.CLOSED
    nulls: int = 10
    seed: int = 0


_AT_MEAN = 1e-9
"""Largest |z| of a count that equals its mean but for rounding."""
_NETWORKS = 20
"""Random networks that show if a count at its mean can differ from it."""


@dataclass(frozen=True, slots=True)
class Atypicality:
    """Scores of N papers; z is NaN for a paper without a pair whose count can differ by chance."""

    z_median: NDArray[np.float64]
    z_p10: NDArray[np.float64]
    pairs: NDArray[np.uint32]
    """Number of pairs among each paper's references, including undefined ones."""
    cells: int
    """Number of pairs of journals that occur, counted once per block of citing years."""
    undefined_cells: int
    """Number of those whose count is the same in every random network."""


def score_atypicality(
    references: JournalReferences, null: Null, pool_years: int = 1, progress: Progress | None = None
) -> Atypicality:
    """Score all papers; the bits do not depend on the number of threads.

    `pool_years`: number of citing years compared with each other; more than 1 is for years with fewer than about 500
    papers.
    """
    progress = progress or Silent()
    papers = len(references.years)
    median, p10 = np.full(papers, np.nan), np.full(papers, np.nan)
    pairs = np.zeros(papers, np.uint32)
    cells = undefined = 0
    progress.begin("atypicality", len(references.cited))
    for block in references.blocks(pool_years):
        scored = _scored(block, null)
        rows = slice(block.begin, block.end)
        scored.summarise(median[rows], p10[rows], pairs[rows])
        cells += scored.size()
        if null.model is NullModel.SWITCHING:
            undefined += int(np.isnan(_cells(scored)[3]).sum())
        else:
            fixed = _fixed(block, median[rows], p10[rows])
            median[rows][fixed] = p10[rows][fixed] = np.nan
        progress.advance(int(references.pointer[block.end] - references.pointer[block.begin]))
    return Atypicality(median, p10, pairs, cells, undefined)


def _fixed(block: Block, median: NDArray[np.float64], p10: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which papers of a block have pairs that no shuffle changes, and no others."""
    at_mean = (np.abs(median) < _AT_MEAN) & (np.abs(p10) < _AT_MEAN)
    if not at_mean.any():
        return at_mean
    spread = np.empty_like(median)
    drawn = _scored(block, Null(model=NullModel.SWITCHING, nulls=_NETWORKS))
    drawn.summarise(spread, np.empty_like(median), np.empty(len(median), np.uint32))
    return at_mean & np.isnan(spread)


def pair_scores(references: JournalReferences, null: Null, pool_years: int = 1) -> pl.DataFrame:
    """Return every pair's raw z, one row for each pair of journals that occurs in a block of citing years.

    Columns: year (the block's first), journal_a <= journal_b (names), observed, z (null if undefined).
    """
    tables = [_table(block, references.names, null) for block in references.blocks(pool_years)]
    return pl.concat([pl.DataFrame(schema=_PAIR_COLUMNS), *tables])


_PAIR_COLUMNS: dict[str, pl.DataType] = {
    "year": pl.Int32(),
    "journal_a": pl.String(),
    "journal_b": pl.String(),
    "observed": pl.UInt32(),
    "z": pl.Float64(),
}


def _table(block: Block, names: pl.Series, null: Null) -> pl.DataFrame:
    a, b, observed, z = _cells(_scored(block, null))
    columns = {
        "year": np.full(len(z), block.first_year),
        "journal_a": names.gather(block.journals[a]),
        "journal_b": names.gather(block.journals[b]),
        "observed": observed,
        "z": z,
    }
    table = pl.DataFrame(columns, schema=_PAIR_COLUMNS, nan_to_null=True)
    return table.sort("journal_a", "journal_b")


def _scored(block: Block, null: Null) -> JournalPairs:
    pairs = extension.module().JournalPairs(
        block.pointer, block.journal, block.stratum, len(block.journals), len(block.years)
    )
    if null.model is NullModel.CLOSED:
        pairs.score_closed()
    else:
        seeds = [derive(null.seed, "switching", block.first_year, int(y)) for y in block.years]
        pairs.score_switched(np.array(seeds, np.uint64), null.nulls)
    return pairs


def _cells(
    pairs: JournalPairs,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64]]:
    """Return the pairs that occur: two journals of the block, their count, z."""
    count = pairs.size()
    first, second, observed = (np.empty(count, np.uint32) for _ in range(3))
    z = np.empty(count)
    pairs.cells(first, second, observed, z)
    return first, second, observed, z
