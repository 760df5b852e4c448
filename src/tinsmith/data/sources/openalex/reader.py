"""Reader of OpenAlex records from lines, arrays, saved pages and parquet rows, which feeds a corpus.

A malformed record is quarantined; a damaged file ends the build, or with `skip_bad` is used up to its damage.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from tinsmith.data.losses import Tally
from tinsmith.data.paper import Paper
from tinsmith.data.progress import Progress
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.json_blocks import read_json_blocks
from tinsmith.data.sources.json_text import decoded
from tinsmith.data.sources.kinds import Malformed
from tinsmith.data.sources.lines import Block
from tinsmith.data.sources.names import suggested
from tinsmith.data.sources.openalex.record import (
    Keep,
    date_of,
    exclusion,
    node_paper,
    short_id,
    short_references,
    venue,
    work_paper,
    year_of,
)
from tinsmith.data.sources.openalex.schema import URL, Node, Work, from_plain, read_lines, read_node, read_work
from tinsmith.data.sources.parquet import parquet_columns, parquet_frames
from tinsmith.types.errors import DataError

_ROWS = 5_000
_NODES = 8_192

_Record = bytes | msgspec.Raw | dict[str, object]


class _Document(msgspec.Struct):
    """Page of the API, or a single work."""

    results: list[msgspec.Raw] | None = None
    id: object = msgspec.UNSET


_DOCUMENT = msgspec.json.Decoder(_Document)


@dataclass(slots=True)
class OpenAlexReader:
    """Reader that feeds files to the corpus."""

    complaints: Complaints
    progress: Progress
    keep: frozenset[Keep]
    graph_only: bool
    _tally: Tally = field(default_factory=lambda: Tally("works"))
    _nodes: list[Node] = field(default_factory=list[Node])
    _days: list[dt.date | None] = field(default_factory=list[dt.date | None])
    _partition: str | None = None
    _taken: int = 0
    """Number of works that are not excluded."""

    @contextmanager
    def works(self) -> Generator[None, None, None]:
        """Read all files in the body.

        Raises:
            DataError: too many of the works were lost.
        """
        allowed = "works as OpenAlex writes them: JSON lines, arrays, saved pages or parquet"
        with self.complaints.table("works", "records", allowed, of_papers=True) as self._tally:
            yield
            self._finish()

    def read(self, path: Path, name: str, partition: str | None = None) -> None:
        """Read a file; `partition` is the day of change of records that do not state one.

        Raises:
            DataError: the file is damaged, or has a malformed record in a strict build.
        """
        with self.complaints.until_damage():
            if path.name.endswith(".parquet"):
                self._add(name, partition, _rows(path, name))
                return
            at_once = self._add_nodes if self.graph_only else self._add_works
            for block in read_json_blocks(path, name):
                if not at_once(block, partition):
                    self._add(name, partition, block.lines())

    def _finish(self) -> None:
        """Feed the rest of the buffer."""
        nodes, self._nodes = self._nodes, []
        days, self._days = self._days, []
        if nodes:
            self._add_columns(nodes, days, self._partition)

    def _add(self, name: str, partition: str | None, records: Iterable[tuple[int, _Record]]) -> None:
        papers: list[Paper] = []
        for number, record in records:
            try:
                paper = self._paper(name, number, record, partition)
                page = _page(record) if not paper.id else None
            except Malformed as error:
                self.complaints.malformed(name, number, str(error), _shown(record))
                continue
            if page is None:
                papers.append(paper)
            else:
                self._add(name, partition, enumerate(page, 1))
            if len(papers) >= _ROWS:
                self._hand_over(papers)
        self._hand_over(papers)

    def _hand_over(self, papers: list[Paper]) -> None:
        self.complaints.writer.add(papers)
        self._taken += sum(paper.excluded is None for paper in papers)
        self.progress.advance(len(papers))
        self._tally.read += len(papers)
        papers.clear()

    def _paper(self, name: str, number: int, record: _Record, partition: str | None) -> Paper:
        def complain(counter: str, reason: str) -> None:
            if counter == "bad_abstracts":
                self.complaints.no_abstract(name, number, reason, _shown(record))
            else:
                self.complaints.lost_value(counter, name, number, _shown(record))

        lost: list[str] = []
        if self.graph_only:
            node = from_plain(record, Node, lost) if isinstance(record, dict) else read_node(record, lost)
            paper = node_paper(node, self.keep, partition, complain)
        else:
            work = from_plain(record, Work, lost) if isinstance(record, dict) else read_work(record, lost)
            paper = work_paper(work, self.keep, partition, complain)
        for counter in lost:
            complain(counter, "it cannot be read")
        return paper

    def _add_works(self, block: Block, partition: str | None) -> bool:
        """Add a block at once; False if one of its lines needs individual treatment."""
        works = read_lines(block.data, Work)
        if works is None:
            return False
        try:
            papers = [work_paper(work, self.keep, partition, _give_up) for work in works]
        except Malformed:
            return False
        if not all(paper.id for paper in papers):
            return False
        self._hand_over(papers)
        return True

    def _add_nodes(self, block: Block, partition: str | None) -> bool:
        """Add a block at once, for the graph only; False if one of its lines needs individual treatment."""
        nodes = read_lines(block.data, Node)
        if nodes is None or not all(n.id and n.id.startswith(f"{URL}W") for n in nodes):
            return False
        try:
            days = [date_of(node, _give_up) for node in nodes]
            for node in nodes:
                node.referenced_works = list(short_references(node.referenced_works, _give_up))
        except Malformed:
            return False
        if partition != self._partition or len(self._nodes) >= _NODES:
            self._finish()
            self._partition = partition
        self._nodes.extend(nodes)
        self._days.extend(days)
        self._tally.read += len(nodes)
        self.progress.advance(len(nodes))
        return True

    def _add_columns(self, nodes: list[Node], days: list[dt.date | None], partition: str | None) -> None:
        """Apply `node_paper` to many nodes at once."""
        excluded = [
            exclusion(node, self.keep) if node.is_retracted or node.is_paratext or node.is_xpac else None
            for node in nodes
        ]
        references = [
            () if out or node.referenced_works is None else node.referenced_works
            for node, out in zip(nodes, excluded, strict=True)
        ]
        frame = pl.DataFrame(
            {
                "id": pl.Series([node.id for node in nodes], dtype=pl.String()).str.strip_prefix(URL),
                "year": pl.Series(list(map(year_of, nodes, days)), dtype=pl.Int32()),
                "date": pl.Series(days, dtype=pl.Date()),
                "venue": pl.Series([venue(node) for node in nodes], dtype=pl.String()),
                "updated": pl.Series([n.updated_date or partition for n in nodes], dtype=pl.String()),
                "excluded": pl.Series(excluded, dtype=pl.String()),
            }
        )
        if frame["id"].str.contains("/", literal=True).any():
            frame = frame.with_columns(id=pl.Series([short_id(node.id) for node in nodes], dtype=pl.String()))
        first = self.complaints.writer.papers
        ordinals = np.arange(first, first + len(nodes), dtype=np.uint32)
        cited = pl.Series([one for some in references for one in some], dtype=pl.String())
        self._taken += excluded.count(None)
        citing = np.repeat(ordinals, [len(some) for some in references])
        self.complaints.writer.add_frame(frame, citing, cited, bound=True)


def _give_up(counter: str, reason: str) -> None:
    raise Malformed(f"{counter}: {reason}")


def _page(record: _Record) -> list[msgspec.Raw] | None:
    """Return the works of a page; None for a work without an id.

    Raises:
        Malformed: it is neither a page nor a work.
    """
    if isinstance(record, dict):
        return None
    try:
        document = decoded(_DOCUMENT, record)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
    if document.results is None and document.id is msgspec.UNSET:
        raise Malformed("neither a page of works nor a work")
    return document.results


def _rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, object]]]:
    there = parquet_columns(path, name)
    for wanted in (("id",), ("publication_year", "publication_date")):
        if not set(wanted) & set(there):
            raise DataError(
                f"{name} lacks a column", field=wanted[0], allowed=" or ".join(wanted), fix=suggested(there, wanted)
            )
    number = 0
    for batch in parquet_frames(path, name, [c for c in there if c in Work.__struct_fields__], _ROWS):
        for row in batch.iter_rows(named=True):
            number += 1
            yield number, row


def _shown(record: _Record) -> str:
    if isinstance(record, dict):
        return repr(record)
    return bytes(memoryview(record)[:4096]).decode("utf-8", "replace")
