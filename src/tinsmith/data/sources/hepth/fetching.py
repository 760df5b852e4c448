"""Download of the corpus: two archives of SNAP become papers.jsonl.gz and edges.tsv.gz, checked against pinned hashes.

The archives stay in `snap` below the folder, so that nothing is fetched twice; `fetched.json` records them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.data.download import Fetched, download
from tinsmith.data.progress import Progress
from tinsmith.data.replacing import replacing
from tinsmith.data.sources.hepth.archives import Edge, read_edges, read_records, readable
from tinsmith.data.sources.hepth.record import Record
from tinsmith.data.sources.hepth.release import Release
from tinsmith.models.staging import one_writer
from tinsmith.types.errors import BackendError, DataError
from tinsmith.types.fingerprints import file_sha256

PAPERS: Final = "papers.jsonl.gz"
EDGES: Final = "edges.tsv.gz"
RECEIPT: Final = "fetched.json"
ARCHIVES: Final = "snap"


Downloading = Callable[[str], AbstractContextManager[Fetched]]
"""Context that displays the download of a file with this name."""
Reading = Callable[[], AbstractContextManager[Progress]]
"""Context that displays the progress of reading records."""


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """Fetched file."""

    name: str
    bytes: int
    sha256: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Content of fetched.json."""

    corpus: str
    archives: tuple[Archive, ...]
    papers: int
    edges: int
    papers_sha256: str
    """Digest of the lines of papers.jsonl, uncompressed."""
    edges_sha256: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a fetch."""

    receipt: Receipt
    fresh: bool
    """True if something was written; False if everything existed."""
    as_known: bool
    """True if every text, date and author is the one of the published results."""


def fetch_corpus(release: Release, out: Path, downloading: Downloading, reading: Reading) -> Outcome:
    """Fetch the corpus into the folder `out`; existing files are checked instead.

    Args:
        release: corpus to fetch.
        out: its folder.
        downloading: display of each download.
        reading: display of the progress of reading records.

    Raises:
        BackendError: a file cannot be fetched or written.
        DataError: an archive is damaged, or its content is not the pinned corpus.
    """
    try:
        with one_writer(out):
            out.mkdir(parents=True, exist_ok=True)
            existing = _existing(release, out)
            if existing is not None:
                return Outcome(existing, False, existing.papers_sha256 == release.papers_sha256)
            receipt = _fetched(release, out, downloading, reading)
    except OSError as error:
        raise BackendError(
            f"the corpus could not be written: {error.strerror or error}",
            field="--out",
            value=str(out),
            fix="make room, or name a folder you may write to; what was fetched so far is kept",
        ) from None
    return Outcome(receipt, True, receipt.papers_sha256 == release.papers_sha256)


def _fetched(release: Release, out: Path, downloading: Downloading, reading: Reading) -> Receipt:
    folder = out / ARCHIVES
    folder.mkdir(exist_ok=True)
    files = [folder / release.edges, folder / release.abstracts]
    for file in files:
        with downloading(file.name) as say:
            download(release.site + file.name, file, say)
    edges = read_edges(files[0])
    edge_lines = _edge_lines(edges)
    _require("edges", files[0], len(edges), release.edge_count, edge_lines, release.edges_sha256)
    in_graph = frozenset(end for edge in edges for end in edge)
    with reading() as progress:
        progress.begin("records read", release.paper_count)
        records = read_records(files[1], in_graph, progress.advance)
    ids = _lines(record.id for record in records)
    _require("papers", files[1], len(records), release.paper_count, ids, release.ids_sha256)
    paper_lines = _paper_lines(records)
    receipt = Receipt(
        corpus=release.title,
        archives=tuple(Archive(name=file.name, bytes=file.stat().st_size, sha256=file_sha256(file)) for file in files),
        papers=len(records),
        edges=len(edges),
        papers_sha256=_sha256(paper_lines),
        edges_sha256=_sha256(edge_lines),
    )
    _write(out / EDGES, edge_lines)
    _write(out / PAPERS, paper_lines)
    with replacing(out / RECEIPT) as part:
        part.write_bytes(msgspec.json.format(msgspec.json.encode(receipt), indent=2) + b"\n")
    return receipt


def _existing(release: Release, out: Path) -> Receipt | None:
    """Return the receipt of a complete existing corpus, whose files match the receipt and the pinned hashes."""
    if not all((out / name).is_file() for name in (PAPERS, EDGES, RECEIPT)):
        return None
    try:
        receipt = msgspec.json.decode((out / RECEIPT).read_bytes(), type=Receipt)
        with readable(out / PAPERS):
            papers = _sha256(gzip.decompress((out / PAPERS).read_bytes()))
        with readable(out / EDGES):
            edges = _sha256(gzip.decompress((out / EDGES).read_bytes()))
    except (DataError, msgspec.DecodeError):
        return None  # damaged: it is rebuilt from the archives
    whole = papers == receipt.papers_sha256 and edges == receipt.edges_sha256
    return receipt if whole and edges == release.edges_sha256 else None


def _require(what: str, file: Path, count: int, wanted: int, content: bytes, sha256: str) -> None:
    """Reject a corpus with another graph, with which every figure would differ."""
    found = _sha256(content)
    if found != sha256:
        raise DataError(
            f"{file.name}: these are not the {wanted:,} {what} that are known here",
            field=f"sha256 of {count:,} {what}",
            value=found,
            allowed=sha256,
            fix=f"delete {file} and fetch again; if it stays so, SNAP's file was changed",
        )


def _edge_lines(edges: list[Edge]) -> bytes:
    return _lines(f"{citing}\t{cited}" for citing, cited in edges)


def _paper_lines(records: list[Record]) -> bytes:
    return _lines(json.dumps(msgspec.structs.asdict(record)) for record in records)


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Compress without name and time, so that the same content gives the same file."""
    with (
        replacing(path) as part,
        part.open("wb") as raw,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as out,
    ):
        out.write(content)
