"""Hands OpenAlex records to a corpus, from gzip lines, parquet rows and JSON documents alike.

A malformed record is set aside; a damaged file ends the build unless damaged files may be skipped, and then
what stands before the damage counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from tinsmith.data.paper import Paper
from tinsmith.data.progress import Progress
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.lines import Block, DamagedFile, Malformed, read_all, read_blocks
from tinsmith.data.sources.openalex.record import Keep, day, exclusion, node_paper, venue, work_paper, year_of
from tinsmith.data.sources.openalex.schema import URL, Node, Work, from_plain, read_lines, read_node, read_work

_ROWS = 5_000
_NODES = 8_192

_Record = bytes | msgspec.Raw | dict[str, object]


class _Document(msgspec.Struct):
    """A page of the API, or one work."""

    results: list[msgspec.Raw] | None = None
    id: object = None


@dataclass(slots=True)
class OpenAlexReader:
    """Reads files into `writer`; `finish` comes last."""

    complaints: Complaints
    progress: Progress
    keep: frozenset[Keep]
    graph_only: bool
    _nodes: list[Node] = field(default_factory=list[Node])
    _partition: str | None = None

    def read(self, path: Path, name: str, partition: str | None) -> None:
        """Read a part of a snapshot; `partition` is the day its records changed, where the records do not say.

        Raises:
            DataError: the file is damaged, or (strict) has a malformed record.
        """
        with self.complaints.until_damage():
            if path.name.endswith(".parquet"):
                self._add(name, partition, _rows(path, name))
                return
            at_once = self._add_nodes if self.graph_only else self._add_works
            for block in read_blocks(path, name):
                if not at_once(block, partition):
                    self._add(name, partition, block.lines())

    def read_document(self, path: Path, name: str) -> None:
        """Read a saved page of the API, a list of works, one work, or (by its name) a file of JSON lines.

        Raises:
            DataError: as `read`.
        """
        if ".jsonl" in path.name or ".ndjson" in path.name:
            self.read(path, name, None)
            return
        with self.complaints.until_damage():
            content = read_all(path, name)
            try:
                works = _works(content)
            except (Malformed, msgspec.DecodeError) as error:
                self.complaints.malformed(name, 1, str(error), _shown(content))
            else:
                self._add(name, None, enumerate(works, 1))

    def finish(self) -> None:
        """Hand over what is still held."""
        nodes, self._nodes = self._nodes, []
        if nodes:
            self._add_columns(nodes, self._partition)

    def _add(self, name: str, partition: str | None, records: Iterable[tuple[int, _Record]]) -> None:
        papers: list[Paper] = []
        for number, record in records:
            try:
                papers.append(self._paper(name, number, record, partition))
            except Malformed as error:
                self.complaints.malformed(name, number, str(error), _shown(record))
            if len(papers) >= _ROWS:
                self._hand_over(papers)
        self._hand_over(papers)

    def _hand_over(self, papers: list[Paper]) -> None:
        self.complaints.writer.add(papers)
        self.progress.advance(len(papers))
        papers.clear()

    def _paper(self, name: str, number: int, record: _Record, partition: str | None) -> Paper:
        if self.graph_only:
            node = from_plain(record, Node) if isinstance(record, dict) else read_node(record)
            return node_paper(node, self.keep, partition)

        def complain(reason: str) -> None:
            self.complaints.no_abstract(name, number, reason, _shown(record))

        work = from_plain(record, Work) if isinstance(record, dict) else read_work(record)
        return work_paper(work, self.keep, partition, complain)

    def _add_works(self, block: Block, partition: str | None) -> bool:
        """Take a block at once; False if one of its lines needs to be looked at."""
        works = read_lines(block.data, Work)
        if works is None:
            return False
        try:
            papers = [work_paper(work, self.keep, partition, _give_up) for work in works]
        except Malformed:
            return False
        self._hand_over(papers)
        return True

    def _add_nodes(self, block: Block, partition: str | None) -> bool:
        """Take a block at once, for the graph; False if one of its lines needs to be looked at."""
        nodes = read_lines(block.data, Node)
        if nodes is None or not all(n.id and n.id.startswith(f"{URL}W") for n in nodes):
            return False
        if partition != self._partition or len(self._nodes) >= _NODES:
            self.finish()
            self._partition = partition
        self._nodes.extend(nodes)
        self.progress.advance(len(nodes))
        return True

    def _add_columns(self, nodes: list[Node], partition: str | None) -> None:
        """Do for many nodes what `node_paper` does for one."""
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
                "year": pl.Series([year_of(node) for node in nodes], dtype=pl.Int32()),
                "date": pl.Series([day(node.publication_date) for node in nodes], dtype=pl.Date()),
                "venue": pl.Series([venue(node) for node in nodes], dtype=pl.String()),
                "updated": pl.Series([n.updated_date or partition for n in nodes], dtype=pl.String()),
                "excluded": pl.Series(excluded, dtype=pl.String()),
            }
        )
        first = self.complaints.writer.papers
        ordinals = np.arange(first, first + len(nodes), dtype=np.uint32)
        cited = pl.Series([one for some in references for one in some], dtype=pl.String())
        cited = cited.str.strip_prefix(URL)
        if cited.str.contains("/", literal=True).any():
            cited = cited.str.replace(r"^.*/", "")
        citing = np.repeat(ordinals, [len(some) for some in references])
        self.complaints.writer.add_frame(frame, citing, cited, bound=True)


def _give_up(reason: str) -> None:
    raise Malformed(reason)


def _works(content: bytes) -> list[msgspec.Raw]:
    if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"[":
        return msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"), type=list[msgspec.Raw])
    document = msgspec.json.decode(content.removeprefix(b"\xef\xbb\xbf"), type=_Document)
    if document.results is not None:
        return document.results
    if document.id is None:
        raise Malformed("neither a page of works nor a work")
    return [msgspec.Raw(content.removeprefix(b"\xef\xbb\xbf"))]


def _rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, object]]]:
    number = 0
    try:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        columns = [c for c in frame.collect_schema().names() if c in Work.__struct_fields__]
        for batch in frame.select(columns).collect_batches(chunk_size=_ROWS, maintain_order=True):
            for row in batch.iter_rows(named=True):
                number += 1
                yield number, row
    except pl.exceptions.PolarsError as error:
        raise DamagedFile(name, str(error).splitlines()[0], number + 1, "") from None


def _shown(record: _Record) -> str:
    if isinstance(record, dict):
        return repr(record)
    return bytes(memoryview(record)[:4096]).decode("utf-8", "replace")
