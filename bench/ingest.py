"""OpenAlex records read per second in one process, whole and graph only, from gzip lines that this file makes.

Records have a real work's shape and weight: 9.6 KB of JSON, 30 references, 165 words of abstract, gzip ratio about 5.
Read: gzip lines to papers in memory. Build: the same up to a finished corpus folder.
"""

from __future__ import annotations

import collections
import gc
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
from isal import igzip

from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper
from tinsmith.data.progress import Silent
from tinsmith.data.sources.lines import read_blocks
from tinsmith.data.sources.openalex.schema import Node, Work, read_lines
from tinsmith.data.sources.openalex.source import OpenAlexChoices, SnapshotSource
from tinsmith.data.sources.source import build_corpus

RECORDS, PARTS, ROUNDS = 40_000, 2, 5
GOALS = {"whole": 14_000, "graph only": 40_000}
WORDS = [f"{a}{b}{c}" for a in "bdfglmnprst" for b in ("a", "er", "io", "un") for c in ("ce", "ly", "m", "tion", "x")]


def url(kind: str, number: int) -> str:
    return f"https://openalex.org/{kind}{number}"


def location(rng: random.Random, doi: str, venue: int) -> dict[str, Any]:
    return {
        "id": f"doi:{doi}",
        "is_oa": rng.random() < 0.4,
        "landing_page_url": f"https://doi.org/{doi}",
        "pdf_url": None,
        "source": {
            "id": url("S", 10_000_000 + venue),
            "display_name": f"Journal of {WORDS[venue % len(WORDS)]} {venue}",
            "issn_l": f"{venue:04}-{venue:04}",
            "issn": [f"{venue:04}-{venue:04}", f"{venue + 1:04}-{venue:04}"],
            "is_oa": False,
            "is_in_doaj": False,
            "is_core": True,
            "host_organization": url("P", 4_310_000_000 + venue % 50),
            "host_organization_name": f"Publisher {venue % 50}",
            "host_organization_lineage": [url("P", 4_310_000_000 + venue % 50)],
            "type": "journal",
        },
        "license": None,
        "version": "publishedVersion",
        "is_accepted": True,
        "is_published": True,
    }


def authorship(rng: random.Random) -> dict[str, Any]:
    number = rng.randrange(10**9)
    name = f"{rng.choice(WORDS).title()} {rng.choice(WORDS).title()}"
    institution = rng.randrange(10_000)
    return {
        "author_position": "middle",
        "author": {
            "id": url("A", 5_000_000_000 + number),
            "display_name": name,
            "orcid": f"https://orcid.org/0000-000{number % 10}-{number % 10000:04}-0000",
        },
        "institutions": [
            {
                "id": url("I", 100_000_000 + institution),
                "display_name": f"University of {WORDS[institution % len(WORDS)]}",
                "ror": f"https://ror.org/0{institution:06}",
                "country_code": "DE",
                "type": "education",
                "lineage": [url("I", 100_000_000 + institution)],
            }
        ],
        "countries": ["DE"],
        "is_corresponding": False,
        "raw_author_name": name,
        "raw_affiliation_strings": [f"Department of {rng.choice(WORDS)}, University {institution}"],
    }


def topic(number: int, score: float) -> dict[str, Any]:
    return {
        "id": url("T", 10_000 + number),
        "display_name": f"Studies in {WORDS[number % len(WORDS)]} and {WORDS[number * 7 % len(WORDS)]}",
        "score": score,
        "subfield": {"id": "https://openalex.org/subfields/1804", "display_name": "Statistics"},
        "field": {"id": "https://openalex.org/fields/18", "display_name": f"Field {number % 26}"},
        "domain": {"id": "https://openalex.org/domains/2", "display_name": "Social Sciences"},
    }


def work(index: int, rng: random.Random) -> dict[str, Any]:
    """One work; the same for the same index and seed."""
    doi, venue = f"10.1234/{rng.randrange(10**8)}", rng.randrange(2000)
    year = 1990 + index * 30 // RECORDS
    inverted: dict[str, list[int]] = {}
    for position in range(rng.randint(115, 215)):
        word = rng.choice(WORDS) + str(int(rng.random() ** 4 * 40))
        inverted.setdefault(word, []).append(position)
    topics = [topic(rng.randrange(4500), 0.9 - 0.1 * i) for i in range(3)]
    title = " ".join(rng.choice(WORDS) for _ in range(11)).capitalize()
    references = [url("W", 2_000_000_000 + rng.randrange(max(1, index))) for _ in range(rng.randint(10, 50))]
    return {
        "id": url("W", 2_000_000_000 + index),
        "doi": f"https://doi.org/{doi}",
        "title": title,
        "display_name": title,
        "publication_year": year,
        "publication_date": f"{year}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
        "language": "en",
        "primary_location": location(rng, doi, venue),
        "type": "article",
        "open_access": {"is_oa": False, "oa_status": "closed", "oa_url": None},
        "authorships": [authorship(rng) for _ in range(rng.randint(1, 4))],
        "cited_by_count": rng.randrange(100),
        "biblio": {"volume": "6", "issue": None, "first_page": "1", "last_page": "9"},
        "is_retracted": False,
        "is_paratext": False,
        "is_xpac": False,
        "primary_topic": topics[0],
        "topics": topics,
        "keywords": [
            {"id": f"https://openalex.org/keywords/{w}", "display_name": w, "score": 0.5} for w in rng.sample(WORDS, 6)
        ],
        "concepts": [
            {
                "id": url("C", number),
                "wikidata": f"https://www.wikidata.org/wiki/Q{number}",
                "display_name": WORDS[number % 200],
                "level": i % 4,
                "score": 0.4,
            }
            for i, number in enumerate(rng.sample(range(70_000), 8))
        ],
        "locations": [location(rng, doi, venue)],
        "referenced_works_count": len(references),
        "referenced_works": references,
        "related_works": [url("W", 2_000_000_000 + rng.randrange(10**8)) for _ in range(3)],
        "abstract_inverted_index": inverted,
        "counts_by_year": [{"year": 2025 - i, "cited_by_count": i} for i in range(4)],
        "updated_date": "2026-03-02T01:02:03.456789",
        "created_date": "2020-01-01",
    }


def write_snapshot(folder: Path) -> tuple[int, int]:
    """Write the parts in the snapshot's layout; returns bytes of JSON and of gzip."""
    rng = random.Random(0)
    raw = packed = 0
    for part in range(PARTS):
        path = folder / "data/jsonl/works/updated_date=2026-03-02" / f"part_{part:04}.jsonl.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with igzip.open(path, "wb", compresslevel=2) as file:
            for index in range(part * RECORDS // PARTS, (part + 1) * RECORDS // PARTS):
                line = msgspec.json.encode(work(index, rng)) + b"\n"
                raw += file.write(line)
        packed += path.stat().st_size
    return raw, packed


class Counter:
    """Takes papers like a corpus writer and keeps none."""

    papers = 0
    dropped: ClassVar[collections.Counter[str]] = collections.Counter()

    def settle(self) -> None:
        pass

    def add(self, papers: Sequence[Paper]) -> None:
        self.papers += len(papers)

    def add_frame(self, papers: Any, *_: object, **__: object) -> None:
        self.papers += papers.height


def read(folder: Path, graph_only: bool) -> int:
    source = SnapshotSource(folder, OpenAlexChoices(graph_only=graph_only))
    counter = Counter()
    gc.disable()  # as build_corpus does
    source.feed(cast("CorpusWriter", counter), Silent())
    gc.enable()
    return counter.papers


def decode(folder: Path, graph_only: bool) -> int:
    """Gzip and typed JSON alone: nobody who uses them can be faster."""
    count = 0
    gc.disable()
    for path in sorted(folder.rglob("*.jsonl.gz")):
        for block in read_blocks(path, path.name):
            count += len(read_lines(block.data, Node if graph_only else Work) or ())
    gc.enable()
    return count


def build(folder: Path, graph_only: bool) -> int:
    source = SnapshotSource(folder, OpenAlexChoices(graph_only=graph_only))
    return build_corpus(source, folder / "corpus", force=True).papers


def rates(run: Callable[[], int]) -> tuple[float, float, float]:
    """Records a second: best and median by CPU, best by the wall."""
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(ROUNDS):
        start, start_cpu = time.perf_counter(), time.process_time()
        count = run()
        cpu.append(count / (time.process_time() - start_cpu))
        wall.append(count / (time.perf_counter() - start))
    return max(cpu), statistics.median(cpu), max(wall)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        raw, packed = write_snapshot(folder)
        print(f"{RECORDS:,} records of {raw / RECORDS:,.0f} bytes, gzip ratio {raw / packed:.1f}")
        for name, goal in GOALS.items():
            graph_only = name == "graph only"
            for what, run in (("decode", decode), ("read", read), ("build", build)):
                best, median, wall = rates(lambda run=run, only=graph_only: run(folder, only))
                shown = f"goal {goal:,}" if what == "read" else ""
                print(
                    f"{name:<12}{what:<7}{best:>9,.0f} records/CPU-s best {median:>9,.0f} median "
                    f"{wall:>9,.0f} records/s by the wall  {shown}"
                )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"peak memory {peak / (1 << 20 if sys.platform == 'darwin' else 1 << 10):,.0f} MB")


if __name__ == "__main__":
    main()
