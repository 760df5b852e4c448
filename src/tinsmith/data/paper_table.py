"""Writer of `papers.parquet` from the parts of a spill: a bucket sort by row, with few texts in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from tinsmith.data.content_digest import ContentDigest
from tinsmith.data.corpus_card import MISSING
from tinsmith.data.row_order import RowOrder
from tinsmith.data.schema import PAPER_COLUMNS
from tinsmith.data.spill import NOWHERE, Spill, read_part

_ROW_GROUP = 1 << 16


class PaperTable:
    """Mover of papers from the spill's parts to their rows; the parts are deleted afterwards."""

    def __init__(self, spill: Spill, order: RowOrder) -> None:
        self._spill = spill
        self._order = order
        self._buckets = order.buckets()
        self._pieces: list[list[Path]] = [[] for _ in self._buckets]
        self.digest = ContentDigest(PAPER_COLUMNS)
        self.missing: Counter[str] = Counter()

    @property
    def steps(self) -> int:
        """Number of steps that `write` reports: one per part and one per bucket."""
        return len(self._spill.paper_parts) + len(self._buckets)

    def write(self, path: Path, advance: Callable[[], None]) -> None:
        """Write the table; `advance` is called at every step."""
        for number, part in enumerate(self._spill.paper_parts):
            self._split(number, part)
            advance()

        def chunks(*_: object) -> Iterator[pl.DataFrame]:
            return self._sorted(advance)

        source = register_io_source(chunks, schema=PAPER_COLUMNS)
        source.sink_parquet(path, compression="zstd", row_group_size=_ROW_GROUP, maintain_order=True)

    def _split(self, number: int, part: Path) -> None:
        """Split a part's papers into pieces by bucket."""
        frame = read_part(part)
        ordinals = frame["ordinal"].to_numpy()
        rows = self._order.row_of_id[ordinals]
        stays = (rows != NOWHERE) & ~self._order.superseded[ordinals]
        frame = frame.select(*PAPER_COLUMNS).with_columns(pl.Series("row", rows))
        frame = frame.filter(pl.Series(stays)).sort("row")
        part.unlink()
        starts = np.array([start for start, _ in self._buckets], dtype=np.uint32)
        cuts = [*np.searchsorted(frame["row"].to_numpy(), starts).tolist(), frame.height]
        for bucket, (start, stop) in enumerate(pairwise(cuts)):
            if stop > start:
                piece = self._spill.folder / f"piece-{bucket:06}-{number:06}"
                frame.slice(start, stop - start).write_ipc(piece, compression="lz4")
                self._pieces[bucket].append(piece)

    def _sorted(self, advance: Callable[[], None]) -> Iterator[pl.DataFrame]:
        for pieces in self._pieces:
            if pieces:
                frame = pl.concat(read_part(piece) for piece in pieces)
                frame = frame.sort("row").drop("row").rechunk()
                for piece in pieces:
                    piece.unlink()
                self.digest.update(frame)
                for name in MISSING:
                    self.missing[name] += frame[name].null_count()
                yield frame
            advance()
