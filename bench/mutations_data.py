"""Mutations of data files: none may end in a traceback, and none may lose more than the share without a word.

    python bench/mutations_data.py [COUNT] [TABLE ...]

Each table is a good file and the build that reads it. A mutation flips, cuts, repeats, moves or overwrites bytes, or
changes whole lines and fields; its seed is its number, so that one that fails can be made again.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tinsmith.data.corpus_card import CorpusCard
from tinsmith.data.losses import FEW, SHARE
from tinsmith.data.sources.files import FilesSource
from tinsmith.data.sources.openalex.source import OpenAlexChoices, PagesSource, SnapshotSource
from tinsmith.data.sources.sciscinet.source import SciSciNetSource
from tinsmith.data.sources.source import Source, build_corpus
from tinsmith.types.errors import TinsmithError

PAPERS = 200
NASTY = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"\\", b"\r\n", b"\n", b"\t", b",", b"[" * 50_000, b"{", b"}", b"]",
    b"NaN", b"null", b"-1", b"1e999", b"9" * 400, b"\xed\xa0\x80", b'"\\ud800"', b"PAR1", b"\x1f\x8b", b"",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of file: a good one beside which the others lie, and what reads it."""

    make: Callable[[Path], tuple[Path, Source]]
    of_edges: bool = False


def paper(number: int) -> dict[str, object]:
    return {
        "id": f"p{number}",
        "title": f"Title {number}",
        "abstract": f"some words of {number}",
        "date": f"{1990 + number % 20}-03-04",
        "concepts": ["c"],
        "cited_by_count": number,
    }


def work(number: int) -> dict[str, object]:
    year = 1990 + number % 20
    return {
        "id": f"https://openalex.org/W{number}",
        "display_name": f"Title {number}",
        "publication_year": year,
        "publication_date": f"{year}-03-04",
        "referenced_works": [f"https://openalex.org/W{number // 2}"],
        "cited_by_count": number,
        "abstract_inverted_index": {"alpha": [0], "beta": [1, 2]},
        "updated_date": "2025-11-06T10:00:00",
    }


def lines(records: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def edge_lines(separator: str = "\t") -> bytes:
    return "".join(f"p{number}{separator}p{number // 2}\n" for number in range(1, PAPERS)).encode()


def files(folder: Path) -> FilesSource:
    (folder / "papers.jsonl").write_bytes(lines([paper(number) for number in range(PAPERS)]))
    (folder / "edges.tsv").write_bytes(edge_lines())
    return FilesSource(folder / "papers.jsonl", folder / "edges.tsv")


def papers_jsonl(folder: Path) -> tuple[Path, Source]:
    source = files(folder)
    return source.papers, source


def papers_gz(folder: Path) -> tuple[Path, Source]:
    source = files(folder)
    source.papers.write_bytes(gzip.compress(source.papers.read_bytes(), mtime=0))
    return source.papers, source


def edges_tsv(folder: Path) -> tuple[Path, Source]:
    source = files(folder)
    return source.edges, source


def edges_csv(folder: Path) -> tuple[Path, Source]:
    source = files(folder)
    text = edge_lines(",").replace(b"p1,", b'"p1",')
    source.edges.write_bytes(b"citing,cited\n" + text)
    return source.edges, source


def openalex_json(folder: Path) -> tuple[Path, Source]:
    path = folder / "works.json"
    path.write_text(json.dumps([work(number) for number in range(1, PAPERS)], indent=1))
    return path, PagesSource((path,), OpenAlexChoices())


def openalex_parquet(folder: Path) -> tuple[Path, Source]:
    path = folder / "data/parquet/works/updated_date=2025-11-06/part_0000.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [work(number) for number in range(1, PAPERS)]
    pl.DataFrame(
        [r | {"abstract_inverted_index": json.dumps(r["abstract_inverted_index"])} for r in records]
    ).write_parquet(path)
    return path, SnapshotSource(folder, OpenAlexChoices())


def sciscinet_parquet(folder: Path) -> tuple[Path, Source]:
    numbers = list(range(1, PAPERS))
    path = folder / "sciscinet_papers.parquet"
    pl.DataFrame(
        {"paperid": numbers, "year": [1990 + n % 20 for n in numbers], "title": [f"T {n}" for n in numbers]}
    ).write_parquet(path)
    pl.DataFrame({"citing_paperid": numbers[1:], "cited_paperid": [n // 2 for n in numbers[1:]]}).write_parquet(
        folder / "sciscinet_paperrefs.parquet"
    )
    return path, SciSciNetSource(folder)


TABLES: dict[str, Table] = {
    "papers.jsonl": Table(papers_jsonl),
    "papers.jsonl.gz": Table(papers_gz),
    "edges.tsv": Table(edges_tsv, of_edges=True),
    "edges.csv": Table(edges_csv, of_edges=True),
    "works.json": Table(openalex_json),
    "works.parquet": Table(openalex_parquet),
    "sciscinet.parquet": Table(sciscinet_parquet),
}


def mutated(content: bytes, seed: int) -> bytes:
    """Return the content with one to three changes."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(content) + 1)
        length = rng.choice((1, 2, 8, 64, 1024))
        match rng.randrange(8):
            case 0:
                content = content[:place] + bytes([rng.randrange(256)]) + content[place + 1 :]
            case 1:
                content = content[:place]
            case 2:
                content = content[:place] + content[place + length :]
            case 3:
                content = content[:place] + content[place : place + length] + content[place:]
            case 4:
                content = content[:place] + rng.choice(NASTY) + content[place:]
            case 5:
                content = content[:place] + rng.randbytes(length) + content[place + length :]
            case 6:
                content = content.replace(
                    *rng.choice(((b"\t", b","), (b"\n", b"\r"), (b'"', b"'"), (b":", b";"), (b"p", b"P")))
                )
            case _:
                some = content.split(b"\n")
                rng.shuffle(some)
                content = b"\n".join(some)
    return content


def verdict(table: Table, seed: int, folder: Path) -> str:
    """Return what became of one mutation: `refused`, `read`, or what is wrong with it."""
    path, source = table.make(folder)
    good = path.read_bytes()
    content = mutated(good, seed)
    path.write_bytes(content)
    try:
        card = build_corpus(source, folder / "out", force=True)
    except TinsmithError as error:
        return "refused" if len(str(error).splitlines()) <= 5 else f"{len(str(error).splitlines())} lines of message"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"traceback: {type(error).__name__}: {str(error)[:100]}"
    if accounted(card, table.of_edges, good, content):
        return "read"
    return f"silent loss: {card.papers} papers, {card.edges} edges, {card.dropped}"


def accounted(card: CorpusCard, of_edges: bool, good: bytes, content: bytes) -> bool:
    """Return True if no more than the share of what still stands in the file is neither there nor counted."""
    dropped = card.dropped
    papers = card.papers + sum(dropped[name] for name in ("no_id", "no_year", "duplicate_papers"))
    edges = card.edges + sum(dropped[name] for name in ("self_loops", "duplicate_edges", "dangling_edges"))
    text = good[:2] != b"\x1f\x8b" and good[:4] != b"PAR1"
    left = len(content.split(b"\n")) / len(good.split(b"\n")) if text else 1.0
    least = left * (PAPERS - 1) - card.quarantined - max(FEW, SHARE * PAPERS)
    return (edges if of_edges else papers) >= least


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    failed = 0
    for name in sys.argv[2:] or TABLES:
        start = time.process_time()
        found = Counter[str]()
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(count):
                said = verdict(TABLES[name], seed, Path(folder))
                found[said.partition(":")[0]] += 1
                if said not in ("read", "refused"):
                    print(f"{name} {seed}: {said}")
        wrong = count - found["read"] - found["refused"]
        failed += wrong
        print(f"{name:<18} {count:,} mutations: {dict(sorted(found.items()))}, {time.process_time() - start:.0f} CPU-s")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
