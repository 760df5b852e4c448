"""A corpus folder with metrics, written directly: labels, texts and citations that go together."""

import datetime as dt
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tinsmith.data.baselines.scores import legacy_score
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import CorpusCard, SourceDescription, SourceKind, write_card
from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.metrics_card import MetricsCard, write_metrics_card
from tinsmith.data.schema import CARD, EDGE_COLUMNS, EDGES, METRIC_COLUMNS, METRICS, METRICS_CARD, PAPER_COLUMNS, PAPERS

FINGERPRINT = "ab" * 32
CAUSES = ("pioneer", "developer", "routine")
_WORDS = (("new", "first", "replace"), ("extend", "benchmark", "review"), ("report", "case", "local"))


def labelled_frames(count: int = 600, seed: int = 0, prefix: str = "W") -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return papers and metrics of `count` papers; the cause decides text, citations and cd, noisily."""
    rng = np.random.default_rng(seed)
    cause = rng.integers(0, 3, count)
    lines = np.where(rng.random(count) < 0.7, cause, rng.integers(0, 3, count))
    cited = np.where(cause == 2, rng.integers(0, 3, count), 2 + rng.integers(0, 40, count))
    noise = rng.normal(0, 0.002, count)
    cd = np.array([0.05, -0.05, 0.0])[cause] * rng.random(count) + np.where(cause == 2, 0, noise)
    status = np.full(count, CdStatus.OK.value, object)
    status[::29] = CdStatus.NO_REFS.value
    cd[::29] = 1.0
    status[1::31] = CdStatus.EMPTY.value
    year = np.sort(1990 + rng.integers(0, 20, count))
    ids = [f"{prefix}{i}" for i in range(count)]
    z_p10, z_median = rng.normal(-1, 3, count), rng.normal(3, 3, count)
    papers = pl.DataFrame(
        {
            "id": ids,
            "title": [f"On {_WORDS[t][i % 3]} things {i}" for i, t in enumerate(lines)],
            "abstract": [" ".join(rng.choice([*_WORDS[t], "the", "of", "we", "and"], 20)) for t in lines],
            "year": year,
            "date": [dt.date(y, 1 + i % 12, 1) if i % 7 else None for i, y in enumerate(year)],
            "field": [("physics", "biology")[i % 2] for i in range(count)],
            "concepts": [["graph", f"c{i % 5}"] for i in range(count)],
            "cited_by_count": cited,
            "cause": [CAUSES[c] for c in cause],
        }
    )
    metrics = pl.DataFrame(
        {
            "id": ids,
            "references": np.where(status == CdStatus.NO_REFS.value, 0, 3 + cited % 5),
            "citations": cited,
            "n_i": cited,
            "cd": pl.Series(cd).set(pl.Series(status == CdStatus.EMPTY.value), None),
            "cd_status": status.tolist(),
            "full_window": year < 2005,
            "z_median": z_median,
            "z_p10": z_p10,
            "novelty_score": legacy_score(-z_p10),
            "conventionality_score": legacy_score(z_median),
        }
    ).with_columns(
        pl.when(pl.int_range(pl.len()) % 11 == 5).then(None).otherwise(pl.col(name)).alias(name)
        for name in ("z_median", "z_p10", "novelty_score", "conventionality_score")
    )
    return papers, metrics


def write_corpus(
    folder: Path,
    papers: pl.DataFrame,
    metrics: pl.DataFrame | None,
    *,
    cut: float | None = None,
    missing: Mapping[str, int] | None = None,
) -> Corpus:
    """Write a corpus without edges from what columns there are, and open it."""
    folder.mkdir(parents=True, exist_ok=True)
    _whole(papers, PAPER_COLUMNS).with_columns(pl.col("concepts").fill_null([])).write_parquet(folder / PAPERS)
    pl.DataFrame(schema=EDGE_COLUMNS).write_parquet(folder / EDGES)
    if metrics is not None:
        _whole(metrics, METRIC_COLUMNS).write_parquet(folder / METRICS)
        card = MetricsCard(
            settings={"window_years": 5, "granularity": "year"},
            papers=papers.height,
            edges=0,
            status={},
            full_window=0,
            scored=0,
            pair_cells=0,
            undefined_pair_cells=0,
            corpus=FINGERPRINT,
            fingerprint="cd" * 32,
        )
        write_metrics_card(card, folder / METRICS_CARD)
    years = papers["year"].value_counts().sort("year")
    card = CorpusCard(
        papers=papers.height,
        edges=0,
        forward_edges=0,
        quarantined=0,
        dropped={"self_loops": 3},
        years=dict(years.iter_rows()),
        last_year=max(papers["year"].to_list(), default=0),
        later_papers=0,
        missing=dict(missing or {}),
        source=SourceDescription(kind=SourceKind.SYNTHETIC, settings={"preset": "test"}),
        thresholds=cut,
        fingerprint=FINGERPRINT,
    )
    write_card(card, folder / CARD)
    return Corpus.open(folder)


def labelled_corpus(folder: Path, count: int = 600, seed: int = 0, **options: float) -> Corpus:
    """Write the corpus of `labelled_frames` and open it."""
    return write_corpus(folder, *labelled_frames(count, seed), cut=options.get("cut"))


def _whole(frame: pl.DataFrame, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in columns.items()
    )
