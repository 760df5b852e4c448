"""Readers of SNAP's two archives: the edges with their ids as arXiv writes them, and a record for each paper."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from tinsmith.data.sources.hepth.record import Record, Unreadable, month_of, parse_record
from tinsmith.types.errors import DataError

Edge = tuple[str, str]


def read_edges(file: Path) -> list[Edge]:
    """Return distinct pairs (citing, cited), sorted.

    Raises:
        DataError: the file is damaged, or a line is not two ids.
    """
    edges = set[Edge]()
    with readable(file), gzip.open(file, "rt", encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            if line.startswith("#") or not line.strip():
                continue
            ends = [end.zfill(7) for end in line.split()]
            if len(ends) != 2 or not all(map(is_paper_id, ends)):
                raise DataError(
                    f"{file.name}: this line is no edge",
                    field=f"line {number}",
                    value=line.strip()[:80],
                    allowed="two numbers of up to seven digits",
                )
            edges.add((ends[0], ends[1]))
    return sorted(edges)


def read_records(file: Path, in_graph: frozenset[str], advance: Callable[[], None]) -> list[Record]:
    """Return the records of an archive of .abs files, in the order of submission; `advance` is called for each.

    Raises:
        DataError: the archive is damaged, or a record is invalid.
    """
    records = dict[str, Record]()
    with readable(file), tarfile.open(file, "r:gz") as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            # A tar made on a Mac has files of attributes, too: `._9201001.abs`.
            if not member.isfile() or name.suffix != ".abs" or not is_paper_id(name.stem.zfill(7)):
                continue
            opened = archive.extractfile(member)
            assert opened is not None  # it is a file
            paper, text = name.stem.zfill(7), opened.read().decode("latin-1")
            try:
                records[paper] = parse_record(paper, text, in_graph=paper in in_graph)
            except Unreadable as error:
                raise DataError(f"{file.name}, {member.name}: {error}") from None
            advance()
    return [records[paper] for paper in sorted(records, key=lambda one: (month_of(one), one))]


def is_paper_id(text: str) -> bool:
    """True if this is an arXiv id of before 2007: YYMMNNN."""
    return len(text) == 7 and text.isascii() and text.isdigit() and 1 <= int(text[2:4]) <= 12


@contextmanager
def readable(file: Path) -> Generator[None, None, None]:
    """Convert errors of a damaged archive to a DataError with a remedy."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, UnicodeDecodeError) as error:
        raise DataError(
            f"this file is damaged, or is not what SNAP has: {str(error)[:120]}",
            field="file",
            value=str(file),
            fix="delete it, then fetch again",
        ) from None
