"""Store of papers and edges on disk, in parts of bounded size, until the input is complete.

Every paper gets an ordinal: the number of papers before it. A part of papers holds the valid rows, with `ordinal`,
`size` (bytes of text), `updated` and `excluded` beside the corpus's columns. A part of edges holds `citing` and
`cited`, each either ids or ordinals; in a part that is `bound`, the edges are the reference lists of its citing
records, and are dropped with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from tinsmith.data.paper import Paper
from tinsmith.data.schema import PAPER_COLUMNS

PART_BYTES = 64 << 20
"""Bytes at which a part of papers is written."""
PART_EDGES = 4_000_000
"""Edges at which a part of edges is written."""
NOWHERE = 0xFFFFFFFF
"""Ordinal, and row, of a paper outside the corpus."""
_RECORDS = 8192

PART_COLUMNS: dict[str, pl.DataType] = {
    "ordinal": pl.UInt32(),
    "size": pl.UInt32(),
    "updated": pl.String(),
    "excluded": pl.String(),
    **PAPER_COLUMNS,
}


@dataclass(frozen=True, slots=True)
class EdgePart:
    """File of edges."""

    path: Path
    bound: bool
    count: int

    def read(self) -> pl.DataFrame:
        """Read its `citing` and `cited`."""
        return read_part(self.path)


@dataclass(slots=True)
class _Held:
    frames: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    count: int = 0


@dataclass(slots=True)
class Spill:
    """Writer of parts; holds at most one part of papers and of edges in memory."""

    folder: Path
    dropped: Counter[str]
    part_bytes: int = PART_BYTES
    part_edges: int = PART_EDGES
    _papers: int = 0
    paper_parts: list[Path] = field(default_factory=list[Path])
    edge_parts: list[EdgePart] = field(default_factory=list[EdgePart])
    _records: list[Paper] = field(default_factory=list[Paper])
    _characters: int = 0
    _frames: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    _bytes: int = 0
    _held: dict[bool, _Held] = field(default_factory=lambda: {True: _Held(), False: _Held()})

    @property
    def papers(self) -> int:
        """Number of papers so far: the next one's ordinal."""
        return self._papers + len(self._records)

    def add_records(self, papers: Sequence[Paper]) -> None:
        """Add records with their reference lists."""
        self._records.extend(papers)
        self._characters += sum(len(paper.abstract or "") for paper in papers)
        if len(self._records) >= _RECORDS or self._characters >= self.part_bytes:
            self.settle()

    def add_papers(self, frame: pl.DataFrame) -> None:
        """Add papers as columns; absent columns are null. Papers without id or year are dropped and counted.

        Excluded ones may lack the year. A date outside its paper's year is removed and counted, since rows are sorted
        by both.
        """
        unknown = set(frame.columns) - set(PART_COLUMNS) | {"ordinal", "size"} & set(frame.columns)
        if unknown:
            raise ValueError(f"not columns of a paper: {sorted(unknown)}")
        self.settle()
        ordinals = pl.int_range(self._papers, self._papers + frame.height, dtype=pl.UInt32, eager=True)
        if self._papers + frame.height >= NOWHERE:
            raise ValueError("a corpus holds fewer than 2**32 - 1 papers")
        self._papers += frame.height
        frame = frame.with_columns(
            ordinal=ordinals,
            **{
                name: (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype)
                for name, dtype in PART_COLUMNS.items()
                if name not in ("ordinal", "size")
            },
        ).with_columns(
            pl.col("concepts").fill_null([]),
            size=pl.sum_horizontal(pl.col(name).str.len_bytes().fill_null(0) for name in ("title", "abstract")).cast(
                pl.UInt32
            ),
        )
        frame = self._drop("no_id", frame, pl.col("id").is_null() | (pl.col("id") == ""))
        # An excluded record replaces its older copies, also without a year.
        frame = self._drop("no_year", frame, pl.col("year").is_null() & pl.col("excluded").is_null())
        outside = pl.col("date").dt.year() != pl.col("year")
        self.dropped["dates_outside_year"] += frame.select(outside.sum()).item()
        frame = frame.with_columns(date=pl.when(~outside).then("date"))
        for piece in self._pieces(frame.select(*PART_COLUMNS)):
            self._frames.append(piece)
            self._bytes += int(piece.estimated_size())
            if self._bytes >= self.part_bytes:
                self._flush_papers()

    def add_edges(self, citing: pl.Series, cited: pl.Series, *, bound: bool) -> None:
        """Add edges; a side is ids (String) or ordinals (integers)."""
        if len(citing) != len(cited):
            raise ValueError(f"{len(citing)} citing ends and {len(cited)} cited ones")
        frame = pl.DataFrame({"citing": _end(citing), "cited": _end(cited)})
        held = self._held[bound]
        if held.frames and held.frames[0].schema != frame.schema:
            self._flush_edges(bound)
            held = self._held[bound]
        held.frames.append(frame)
        held.count += frame.height
        if held.count >= self.part_edges:
            self._flush_edges(bound)

    def flush(self) -> None:
        """Write the rest in memory."""
        self.settle()
        self._flush_papers()
        self._flush_edges(True)
        self._flush_edges(False)

    def settle(self) -> None:
        """Convert the records so far to columns, dropping and counting invalid ones."""
        papers, self._records, self._characters = self._records, [], 0
        if not papers:
            return
        first = self._papers
        columns = {
            name: pl.Series(name, [getattr(paper, name) for paper in papers], dtype)
            for name, dtype in PART_COLUMNS.items()
            if name in Paper.__struct_fields__ and name != "concepts"
        }
        # Lists through JSON: several times as fast as one by one.
        encoded = [msgspec.json.encode(paper.concepts).decode() for paper in papers]
        columns["concepts"] = pl.Series(encoded).str.json_decode(PART_COLUMNS["concepts"])
        self.add_papers(pl.DataFrame(columns))
        lengths = [len(paper.references) for paper in papers]
        citing = np.repeat(np.arange(first, self._papers, dtype=np.uint32), lengths)
        cited = pl.Series([one for paper in papers for one in paper.references], dtype=pl.String())
        self.add_edges(pl.Series(citing), cited, bound=True)

    def _drop(self, name: str, frame: pl.DataFrame, condition: pl.Expr) -> pl.DataFrame:
        remaining = frame.filter(~condition)
        self.dropped[name] += frame.height - remaining.height
        return remaining

    def _pieces(self, frame: pl.DataFrame) -> Iterator[pl.DataFrame]:
        count = max(1, int(frame.estimated_size()) // self.part_bytes)
        yield from frame.iter_slices(max(1, -(-frame.height // count)))

    def _flush_papers(self) -> None:
        if self._frames:
            path = self.folder / f"papers-{len(self.paper_parts):06}"
            pl.concat(self._frames).write_ipc(path, compression="lz4")
            self.paper_parts.append(path)
            self._frames, self._bytes = [], 0

    def _flush_edges(self, bound: bool) -> None:
        held, self._held[bound] = self._held[bound], _Held()
        if held.count:
            part = EdgePart(self.folder / f"edges-{len(self.edge_parts):06}", bound, held.count)
            pl.concat(held.frames).write_ipc(part.path, compression="lz4")
            self.edge_parts.append(part)


def _end(side: pl.Series) -> pl.Series:
    if side.dtype == pl.String:
        return side
    inside = side.is_between(0, NOWHERE - 1)
    return side.cast(pl.Int64).set(~inside, NOWHERE).cast(pl.UInt32)


def read_part(path: Path, *columns: str) -> pl.DataFrame:
    """Read a part of a spill, with all or only some `columns`."""
    with path.open("rb") as file:  # a name would be interpreted as a pattern
        return pl.read_ipc(file, columns=list(columns) or None)
