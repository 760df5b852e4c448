"""Writer of `edges.parquet`: ends resolved to rows, then cleaned, counted, and sorted by (citing, cited).

An edge is one 64-bit key, citing row in the upper half, so that edges sort and compare as integers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.edge_check import EdgeCheck
from tinsmith.data.row_order import RowOrder
from tinsmith.data.schema import EDGE_COLUMNS
from tinsmith.data.spill import NOWHERE, EdgePart, Spill

_ROW_GROUP = 1 << 20
_CHUNK = 4 << 20
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class EdgeTable:
    """Edges of a corpus, from the parts of a spill."""

    def __init__(self, spill: Spill, order: RowOrder, *, drop_forward: bool, check: EdgeCheck | None = None) -> None:
        self._spill = spill
        self._order = order
        self._drop_forward = drop_forward
        self._check = check
        self._ids = order.keys.select("id", row=pl.int_range(pl.len(), dtype=pl.UInt32))
        self.dropped: Counter[str] = Counter()
        self.edges = 0
        self.forward = 0
        """Number of written edges whose cited paper is strictly later."""
        self.sha256 = ""

    @property
    def steps(self) -> int:
        """Number of steps that `write` reports: one per part, and one for the rest."""
        return len(self._spill.edge_parts) + 1

    def write(self, path: Path, advance: Callable[[], None]) -> None:
        """Write the table; `advance` is called at every step.

        Raises:
            DataError: a table of edges fails its check against the papers.
        """
        keys = np.empty(sum(part.count for part in self._spill.edge_parts), dtype=np.uint64)
        count = 0
        for part in self._spill.edge_parts:
            found = self._resolve(part)
            keys[count : count + len(found)] = found
            count += len(found)
            part.path.unlink()
            advance()
        keys = self._without_repeats(keys[:count])
        keys = self._without_forward(keys)
        self.edges = len(keys)
        if self._check is not None:
            self._check.require(
                self._ids["id"],
                self.edges + self.dropped["forward_edges"],
                self.forward + self.dropped["forward_edges"],
            )
        self._write(keys, path)
        advance()

    def _resolve(self, part: EdgePart) -> NDArray[np.uint64]:
        """Return the keys of a part's edges, without those outside the corpus."""
        frame = part.read()
        citing = frame["citing"]
        if part.bound:
            stale = self._order.superseded[citing.to_numpy()]
            self.dropped["superseded_edges"] += int(stale.sum())
            if stale.any():
                frame = frame.filter(pl.Series(~stale))
        citing_rows, cited_rows = self._rows(frame["citing"]), self._rows(frame["cited"])
        there = (citing_rows != NOWHERE) & (cited_rows != NOWHERE)
        if self._check is not None and not part.bound:
            meets = {"citing": citing_rows != NOWHERE, "cited": cited_rows != NOWHERE}
            self._check.add(frame, pl.DataFrame(meets))
        loop = there & (citing_rows == cited_rows)
        self.dropped["dangling_edges"] += len(there) - int(there.sum())
        self.dropped["self_loops"] += int(loop.sum())
        valid = there & ~loop
        return citing_rows[valid].astype(np.uint64) << _HALF | cited_rows[valid]

    def _rows(self, ends: pl.Series) -> NDArray[np.uint32]:
        """Return the rows of ids or ordinals; NOWHERE for papers outside the corpus."""
        if ends.dtype == pl.String:
            found = pl.DataFrame({"id": ends}).join(self._ids, on="id", how="left", maintain_order="left")
            return found["row"].fill_null(NOWHERE).to_numpy()
        ordinals = ends.to_numpy()
        rows = np.full(len(ordinals), NOWHERE, dtype=np.uint32)
        inside = ordinals < len(self._order.row_of_id)
        rows[inside] = self._order.row_of_id[ordinals[inside]]
        return rows

    def _without_repeats(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        keys.sort()
        first = np.ones(len(keys), dtype=np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        unique = int(first.sum())
        self.dropped["duplicate_edges"] += len(keys) - unique
        return keys if unique == len(keys) else keys[first]

    def _without_forward(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Count edges to a later paper: by date if both ends have one, else by year; drop them if requested."""
        years = self._order.keys["year"].to_numpy()
        dates = self._order.keys["date"].to_physical()
        dated, days = dates.is_not_null().to_numpy(), dates.fill_null(0).to_numpy()
        forward = np.zeros(len(keys), dtype=np.bool_)
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            citing, cited = chunk >> _HALF, chunk & _LOW
            both = dated[citing] & dated[cited]
            later = np.where(both, days[cited] > days[citing], years[cited] > years[citing])
            forward[start : start + _CHUNK] = later
        count = int(forward.sum())
        if not self._drop_forward:
            self.forward = count
            return keys
        self.dropped["forward_edges"] += count
        return keys[~forward]

    def _write(self, keys: NDArray[np.uint64], path: Path) -> None:
        citing, cited = np.empty(len(keys), np.uint32), np.empty(len(keys), np.uint32)
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            citing[start : start + _CHUNK] = chunk >> _HALF
            cited[start : start + _CHUNK] = chunk & _LOW
        del keys
        digest = hashlib.sha256()
        for side in (citing, cited):
            digest.update(side.astype("<u4", copy=False).tobytes())
        self.sha256 = digest.hexdigest()
        frame = pl.DataFrame({"citing": citing, "cited": cited}, schema=EDGE_COLUMNS)
        frame.write_parquet(path, compression="zstd", row_group_size=_ROW_GROUP)
