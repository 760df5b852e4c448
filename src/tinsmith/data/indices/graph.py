"""Citation graph as two compressed tables: the papers that each paper cites, and those that cite it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops import extension
from tinsmith.types.errors import DataError

_LIMIT = 2**32 - 1
"""Limit of 32-bit counts of rows and edges."""


@dataclass(frozen=True, slots=True)
class CitationGraph:
    """N papers and E citations; a paper's list is `out[out_pointer[i]:out_pointer[i + 1]]`, ascending.

    Pointers have shape (N + 1,), lists (E,).
    """

    out_pointer: NDArray[np.uint32]
    out: NDArray[np.uint32]
    """Papers that each paper cites."""
    in_pointer: NDArray[np.uint32]
    into: NDArray[np.uint32]
    """Papers that cite each paper."""

    @classmethod
    def from_edges(cls, citing: NDArray[np.uint32], cited: NDArray[np.uint32], papers: int) -> CitationGraph:
        """Build the graph of `papers` papers from edges (E,) in any order.

        Sorted edges, as in a corpus, are not copied: `out` is `cited`.

        Raises:
            DataError: an edge to an unknown paper, a self-loop, or a duplicate edge; more than 2**32 - 2 rows or edges.
        """
        _check(citing, cited, papers)
        native = extension.module()
        if native.strictly_ascending(citing, cited):
            out_pointer = np.zeros(papers + 1, np.uint32)
            np.cumsum(np.bincount(citing, minlength=papers), out=out_pointer[1:], dtype=np.uint32)
            out = cited
        else:
            # Grouped by cited paper, then by citing paper: a stable sort by both.
            pointer, grouped = _group(cited, citing, papers)
            values = np.repeat(np.arange(papers, dtype=np.uint32), np.diff(pointer))
            out_pointer, out = _group(grouped, values, papers)
            citing = np.repeat(np.arange(papers, dtype=np.uint32), np.diff(out_pointer))
            if not native.strictly_ascending(citing, out):
                raise DataError("an edge occurs twice", fix="build the corpus again")
        in_pointer, into = _group(out, citing, papers)
        return cls(out_pointer, out, in_pointer, into)

    @property
    def papers(self) -> int:
        """Return N."""
        return len(self.out_pointer) - 1

    @property
    def edges(self) -> int:
        """Return E."""
        return len(self.out)

    def references(self) -> NDArray[np.uint32]:
        """Return the number of references of each paper, (N,)."""
        return np.diff(self.out_pointer)

    def citations(self) -> NDArray[np.uint32]:
        """Return the number of citations of each paper, (N,)."""
        return np.diff(self.in_pointer)


def _check(citing: NDArray[np.uint32], cited: NDArray[np.uint32], papers: int) -> None:
    build = "build the corpus again"
    if papers >= _LIMIT or len(citing) >= _LIMIT:
        raise DataError("the graph is too large", value=(papers, len(citing)), field="papers, edges", fix=build)
    for name, side in (("citing", citing), ("cited", cited)):
        if len(side) and int(side.max()) >= papers:
            raise DataError("an edge ends at no paper", field=name, value=int(side.max()), fix=build)
    loops = citing == cited
    if loops.any():
        raise DataError("a paper cites itself", field="row", value=int(citing[loops][0]), fix=build)


def _group(
    keys: NDArray[np.uint32], values: NDArray[np.uint32], rows: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the start of each key's values, (rows + 1,), and the values grouped by key in their old order, (E,)."""
    pointer, grouped = np.empty(rows + 1, np.uint32), np.empty(len(keys), np.uint32)
    extension.module().group_edges(keys, values, pointer, grouped)
    return pointer, grouped
