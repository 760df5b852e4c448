"""Checks of a table of edges against the papers: ids in two spellings, edges in the wrong direction.

An edge to a paper outside the corpus is no error: many tables cover more papers than a corpus.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tinsmith.data.losses import Cause, loss, too_many

_SAMPLE = 20_000
_REVERSED = 0.5
"""Share of edges to later papers above which citing and cited columns count as swapped."""


@dataclass(slots=True)
class EdgeCheck:
    """Counts over the edges of one table."""

    table: str
    by_name: bool
    """True if the table's header names the citing end."""
    total: int = 0
    dangling: int = 0
    _strangers: list[pl.Series] = field(default_factory=list[pl.Series])
    _sampled: int = 0

    def add(self, ends: pl.DataFrame, meets: pl.DataFrame) -> None:
        """Count edges: their ends' ids, and masks of those that are papers (Boolean); both `citing`, `cited`."""
        self.total += ends.height
        whole = meets["citing"] & meets["cited"]
        self.dangling += ends.height - int(whole.sum())
        for side in ends.columns if self._sampled < _SAMPLE else ():
            some = ends[side].filter(~meets[side]).unique(maintain_order=True).head(_SAMPLE)
            self._strangers.append(some)
            self._sampled += len(some)

    def require(self, papers: pl.Series, edges: int, forward: int) -> None:
        """Check the table against the ids of all papers.

        Args:
            papers: The ids.
            edges: Distinct edges between two papers.
            forward: Those of them that cite a later paper.

        Raises:
            DataError: no edge is left, ids are spelled in two ways, or citing and cited are swapped.
        """
        example = Cause()
        for strangers in self._strangers:
            if len(strangers):
                example = Cause(1, "id", str(strangers[0]))
                break
        if not edges:
            what = "holds no edge" if not self.total else f"none of {self.total:,} edges joins two papers"
            allowed = f"ids of papers, such as {papers[0]!r}"
            raise loss(f"{self.table}: {what}", example, allowed=allowed)
        if too_many(self.dangling, self.total):
            self._require_one_spelling(papers)
        if not self.by_name and too_many(forward, edges) and forward > _REVERSED * edges:
            raise loss(
                f"{self.table}: {forward:,} of {edges:,} edges point to later papers; is the first column the cited?",
                Cause(),
                allowed='a first line that says it: "citing,cited" or "cited,citing"',
            )

    def _require_one_spelling(self, papers: pl.Series) -> None:
        strangers = pl.concat(self._strangers).unique(maintain_order=True)
        pairs = pl.DataFrame({"edge": strangers, "key": _folded(strangers)}).join(
            pl.DataFrame({"paper": papers, "key": _folded(papers)}), on="key", maintain_order="left"
        )
        if too_many(pairs["edge"].n_unique(), len(strangers)):
            edge, paper = pairs["edge"][0], pairs["paper"][0]
            raise loss(
                f"{self.table}: {self.dangling:,} of {self.total:,} edges are lost: ids are written in two ways",
                Cause(1, "id", edge),
                allowed=f"{paper!r}, as the papers have it",
            )


def _folded(ids: pl.Series) -> pl.Series:
    """Normalise an id: without address, W, leading zeros and fraction."""
    bare = ids.str.to_lowercase().str.strip_chars(" \"'").str.replace(r"^https?://[^/]+/", "")
    return bare.str.replace(r"^w?0*(\d)", "$1").str.replace(r"\.0+$", "")
