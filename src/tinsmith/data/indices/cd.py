"""CD index of every paper: the citers in its window, split by whether they also cite its references.

F are the citers in the window, B the papers in the window that cite at least one reference:
CD = (|F| - 2 |F and B|) / |F or B|, one division of integers in double precision. n_j = |F and B|,
n_i = |F| - n_j, n_k = |B| - n_j. Sources: Funk and Owen-Smith 2017 (doi 10.1287/mnsc.2015.2366), with w = 1;
Wu, Wang, Evans 2019 (doi 10.1038/s41586-019-0941-9); the semantics of the `cdindex` package 1.0.20, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.indices.graph import CitationGraph
from tinsmith.data.indices.windows import Windows, undated_first
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.schema import METRIC_COLUMNS
from tinsmith.ops import extension

_PIECES = 64

Counts32 = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class CdCounts:
    """Counts behind the CD index of each of N papers; all (N,)."""

    references: Counts32
    citations: Counts32
    citers: Counts32
    """|F|."""
    both: Counts32
    """|F and B|: citers that also cite a reference."""
    both5: Counts32
    """Citers that cite at least five of the references."""
    reference_citers: Counts32
    """|B|."""
    until_end: Counts32
    """Citers up to the end of the window, early ones included."""
    shared: NDArray[np.uint64]
    """Sum over F of the references shared with the paper."""

    def take(self, rows: NDArray[np.intp]) -> CdCounts:
        """Return the counts of `rows`, in that order."""
        return CdCounts(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


def count_cd(
    citing: NDArray[np.uint32],
    cited: NDArray[np.uint32],
    times: NDArray[np.int32],
    length: int,
    progress: Progress | None = None,
) -> CdCounts:
    """Count for N papers at `times` (N,; ascending except undated ones) with E edges, in any order.

    `times` and `length` are in years or in days. The counts do not depend on the number of threads.

    Raises:
        DataError: the papers are not in time order, or the edges are not a graph on them.
    """
    order = undated_first(times)
    if order is None:
        graph = CitationGraph.from_edges(citing, cited, len(times))
        return count_citers(graph, Windows.after(times, length), progress)
    place = np.empty(len(order), np.uint32)
    place[order] = np.arange(len(order), dtype=np.uint32)
    graph = CitationGraph.from_edges(place[citing], place[cited], len(times))
    return count_citers(graph, Windows.after(times[order], length), progress).take(place.astype(np.intp))


def count_citers(graph: CitationGraph, windows: Windows, progress: Progress | None = None) -> CdCounts:
    """Count for the papers of a graph whose rows are in time order."""
    progress = progress or Silent()
    rows, native = graph.papers, extension.module()
    counts = CdCounts(
        graph.references(),
        graph.citations(),
        citers=np.zeros(rows, np.uint32),
        both=np.zeros(rows, np.uint32),
        both5=np.zeros(rows, np.uint32),
        reference_citers=np.zeros(rows, np.uint32),
        until_end=np.zeros(rows, np.uint32),
        shared=np.zeros(rows, np.uint64),
    )
    cursors = np.repeat(graph.in_pointer[:-1], 2)
    progress.begin("CD index", rows)
    for begin, end in windows.pieces(_PIECES):
        native.count_citers(
            graph.out_pointer,
            graph.out,
            graph.in_pointer,
            graph.into,
            windows.begin,
            windows.end,
            windows.first_dated,
            cursors,
            begin,
            end,
            counts.citers,
            counts.both,
            counts.both5,
            counts.reference_citers,
            counts.until_end,
            counts.shared,
        )
        progress.advance(end - begin)
    return counts


def cd_frame(counts: CdCounts) -> pl.DataFrame:
    """Return the CD columns of METRIC_COLUMNS, N rows; undefined values are null, never 0."""
    citers, both, both5, reference_citers = (
        column.astype(np.int64) for column in (counts.citers, counts.both, counts.both5, counts.reference_citers)
    )
    n_i, n_k = citers - both, reference_citers - both
    union = n_i + both + n_k
    cd = _divide(citers - 2 * both, union)
    columns = {
        "references": counts.references,
        "citations": counts.citations,
        "n_i": n_i.astype(np.uint32),
        "n_j": counts.both,
        "n_k": n_k.astype(np.uint32),
        "cd": cd,
        "cd_status": status(counts),
        "mcd_cdindex": cd * counts.until_end,
        "mcd_window": cd * citers,
        "di_no_k": _divide(n_i - both, citers),
        "n_j5": counts.both5,
        "di_5": _divide(n_i - both5, n_i + both5 + n_k),
        "dep": _divide(counts.shared, citers),
    }
    schema = {name: METRIC_COLUMNS[name] for name in columns}
    return pl.DataFrame(columns, schema=schema, nan_to_null=True)


def status(counts: CdCounts) -> pl.Series:
    """Return the evidence for each paper's CD index, CdStatus as String, (N,)."""
    names = (CdStatus.OK, CdStatus.NO_REFS, CdStatus.NO_WINDOW_CITERS, CdStatus.EMPTY)
    cited, refs_cited = counts.citers > 0, counts.reference_citers > 0
    codes = np.select([cited & (counts.references > 0), cited, refs_cited], [0, 1, 2], default=3)
    return pl.Series([name.value for name in names]).gather(codes)


def _divide(numerator: NDArray[np.int64] | NDArray[np.uint64], denominator: NDArray[np.int64]) -> NDArray[np.float64]:
    """Divide (N,) by (N,), NaN if the denominator is 0."""
    quotient = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
