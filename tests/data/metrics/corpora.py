"""Small corpora written directly from the schema, random citation graphs, the hep-th graph, and `cdindex` on them."""

import datetime as dt
import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cdindex
import numpy as np
import polars as pl
import pytest
from building import SHARED
from numpy.typing import NDArray

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import CorpusCard, SourceDescription, SourceKind, write_card
from tinsmith.data.schema import CARD, EDGE_COLUMNS, EDGES, PAPER_COLUMNS, PAPERS

HEPTH = SHARED / "hepth"

Edges = tuple[NDArray[np.uint32], NDArray[np.uint32]]


@dataclass(frozen=True)
class Toy:
    """A paper of a small corpus; `date` as YYYY-MM-DD decides the year."""

    id: str
    year: int = 0
    date: str | None = None
    venue: str | None = None


def small_corpus(folder: Path, papers: Iterable[Toy], edges: Iterable[tuple[str, str]]) -> Corpus:
    """Write a corpus of papers in any order and edges (citing, cited) by id in any order, and open it."""
    dated = [(None if toy.date is None else dt.date.fromisoformat(toy.date), toy) for toy in papers]
    rows = sorted(
        (toy.year or (date.year if date else 0), date or dt.date.min, toy.id, date, toy.venue) for date, toy in dated
    )
    row_of = {id: row for row, (_, _, id, _, _) in enumerate(rows)}
    pairs = sorted((row_of[citing], row_of[cited]) for citing, cited in edges)
    frame = pl.DataFrame(
        {
            "id": [row[2] for row in rows],
            "year": [row[0] for row in rows],
            "date": [row[3] for row in rows],
            "venue": [row[4] for row in rows],
        },
        schema_overrides={"venue": pl.String(), "date": pl.Date(), "year": pl.Int32()},
    )
    citing, cited = np.array(pairs, np.uint32).reshape(-1, 2).T
    return write_frames(folder, frame, citing, cited)


def write_frames(folder: Path, papers: pl.DataFrame, citing: NDArray[np.uint32], cited: NDArray[np.uint32]) -> Corpus:
    """Write papers in row order (any of PAPER_COLUMNS, others null) and sorted edges, and open the corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = papers.select(
        (pl.col(name) if name in papers.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in PAPER_COLUMNS.items()
    )
    whole.with_columns(pl.col("concepts").fill_null([])).write_parquet(folder / PAPERS)
    pl.DataFrame({"citing": citing, "cited": cited}, schema=EDGE_COLUMNS).write_parquet(folder / EDGES)
    card = CorpusCard(
        papers=papers.height,
        edges=len(citing),
        forward_edges=0,
        quarantined=0,
        dropped={},
        years=dict(papers["year"].value_counts().sort("year").iter_rows()),
        last_year=max(papers["year"].to_list(), default=0),
        later_papers=0,
        missing={},
        source=SourceDescription(kind=SourceKind.FILES),
        thresholds=None,
        fingerprint="cd" * 32,
    )
    write_card(card, folder / CARD)
    return Corpus.open(folder)


def random_edges(papers: int, seed: int, mean: float = 8.0, no_references: float = 0.12) -> Edges:
    """Draw unique edges without self-loops: mostly to earlier rows, some to later ones, some mutual, with hubs."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(mean, papers)
    counts[rng.random(papers) < no_references] = 0
    citing = np.repeat(np.arange(papers), counts)
    earlier = (citing * rng.random(len(citing)) ** 2).astype(np.int64)
    anywhere = rng.integers(0, papers, len(citing))
    hubs = rng.integers(0, max(1, papers // 100), len(citing))
    kind = rng.random(len(citing))
    cited = np.where(kind < 0.02, anywhere, np.where(kind < 0.2, hubs, earlier))
    keys = np.unique((citing << 32 | cited)[citing != cited])
    return (keys >> 32).astype(np.uint32), (keys & (2**32 - 1)).astype(np.uint32)


def peer(times: Sequence[int], citing: NDArray[np.uint32], cited: NDArray[np.uint32]) -> object:
    """Return the `cdindex` package's graph; vertex i is named str(i)."""
    graph = cdindex.Graph()
    for row, time in enumerate(times):
        graph.add_vertex(str(row), int(time))
    for a, b in zip(citing.tolist(), cited.tolist(), strict=True):
        graph.add_edge(str(a), str(b))
    return graph


@dataclass(frozen=True)
class Hepth:
    """The hep-th graph in time order; `days` since 1970."""

    years: NDArray[np.int32]
    days: NDArray[np.int32]
    citing: NDArray[np.uint32]
    cited: NDArray[np.uint32]


def hepth() -> Hepth:
    """Read the hep-th graph without self-loops; skips the test where it is not at hand."""
    if not HEPTH.exists():
        pytest.skip(f"no {HEPTH}")
    with gzip.open(HEPTH / "papers.jsonl.gz", "rt") as file:
        records = [json.loads(line) for line in file]
    rows = sorted((dt.date.fromisoformat(record["date"]), record["id"]) for record in records)
    row_of = {id: row for row, (_, id) in enumerate(rows)}
    with gzip.open(HEPTH / "edges.tsv.gz", "rt") as file:
        pairs = {tuple(row_of[id] for id in line.split()) for line in file}
    edges = np.array(sorted((a, b) for a, b in pairs if a != b), np.uint32).T
    epoch = dt.date(1970, 1, 1)
    return Hepth(
        np.array([date.year for date, _ in rows], np.int32),
        np.array([(date - epoch).days for date, _ in rows], np.int32),
        *np.ascontiguousarray(edges),
    )
