"""Slices of a corpus of 2,000,000 papers with abstracts: CPU-seconds and peak memory of each, in a process of its own.

The corpus is made here: 1.2 KB of text a paper, labels in the proportions of the source notes' 2 M cohort.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from tinsmith.data.corpus_card import CorpusCard, SourceDescription, SourceKind, write_card
from tinsmith.data.metrics_card import MetricsCard, write_metrics_card
from tinsmith.data.schema import CARD, EDGE_COLUMNS, EDGES, METRIC_COLUMNS, METRICS, METRICS_CARD, PAPER_COLUMNS, PAPERS

PAPERS_COUNT, BLOCK, GOAL_GB = 2_000_000, 1 << 16, 4.0
SHARES = (0.125, 0.296, 0.579)  # disruptive, consolidating, neutral
CASES = {
    "5,000 / 500 / 500 balanced": ("--per-class", "2500", "--train", "5000", "--validation", "500", "--test", "500"),
    "3 x 200,000": ("--per-class", "200000"),
    "natural, all of them": ("--natural",),
}


def blocks(count: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield papers and metrics, BLOCK rows at a time."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i:04}" for i in range(6_000)])
    texts = [" ".join(rng.choice(words, 190)) for _ in range(4_000)]
    for start in range(0, count, BLOCK):
        rows = np.arange(start, min(start + BLOCK, count))
        labels = rng.choice(3, len(rows), p=SHARES)
        cd = np.array([0.05, -0.05, 0.0])[labels]
        ids = pl.Series("id", [f"W{i:010}" for i in rows])
        picks = rng.integers(0, len(texts), len(rows)).tolist()
        yield (
            pl.DataFrame([ids]).with_columns(
                title=pl.Series([f"Paper {i}" for i in rows]),
                abstract=pl.Series([f"{i} {texts[pick]}" for i, pick in zip(rows, picks, strict=True)]),
                year=pl.Series(1980 + rows * 40 // count),
                field=pl.lit("Physics"),
                concepts=pl.lit(["Graph", "Paper"]),
                cited_by_count=pl.Series(rng.integers(0, 100, len(rows))),
            ),
            pl.DataFrame([ids]).with_columns(
                cd=pl.Series(cd),
                cd_status=pl.lit("ok"),
                references=pl.lit(9),
                citations=pl.lit(9),
                novelty_score=pl.Series(rng.random(len(rows))),
                conventionality_score=pl.Series(rng.random(len(rows))),
                full_window=pl.lit(True),
            ),
        )


def whole(frame: pl.DataFrame, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in columns.items()
    )


def make_corpus(folder: Path, count: int) -> None:
    parts = folder / "parts"
    parts.mkdir(parents=True)
    for number, (papers, metrics) in enumerate(blocks(count)):
        whole(papers, PAPER_COLUMNS).write_parquet(parts / f"papers-{number:04}.parquet")
        whole(metrics, METRIC_COLUMNS).write_parquet(parts / f"metrics-{number:04}.parquet")
    for name, target in (("papers", PAPERS), ("metrics", METRICS)):
        scan = pl.scan_parquet(parts / f"{name}-*.parquet")
        scan.sink_parquet(folder / target, row_group_size=BLOCK, maintain_order=True)
    pl.DataFrame(schema=EDGE_COLUMNS).write_parquet(folder / EDGES)
    metrics = MetricsCard(
        settings={}, papers=count, edges=0, status={}, full_window=0, scored=0, pair_cells=0,
        undefined_pair_cells=0, corpus="0" * 64, fingerprint="0" * 64,
    )  # fmt: skip
    write_metrics_card(metrics, folder / METRICS_CARD)
    source = SourceDescription(kind=SourceKind.SYNTHETIC)
    card = CorpusCard(
        papers=count, edges=0, forward_edges=0, quarantined=0, dropped={}, years={}, last_year=2020, later_papers=0,
        missing={},
        source=source, thresholds=0.001, fingerprint="0" * 64,
    )  # fmt: skip
    write_card(card, folder / CARD)


def in_a_process(arguments: list[str]) -> tuple[float, float]:
    """Run `tinsmith data ...` and return its CPU-seconds and its peak memory in GB."""
    child = os.posix_spawn(sys.executable, [sys.executable, "-m", "tinsmith", "data", *arguments], os.environ)
    _, status, usage = os.wait4(child, 0)
    if status:
        sys.exit(f"tinsmith data {' '.join(arguments)} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e6


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PAPERS_COUNT
    with tempfile.TemporaryDirectory() as temporary:
        corpus, out = Path(temporary) / "corpus", Path(temporary) / "slice"
        make_corpus(corpus, count)
        for name, options in CASES.items():
            arguments = ["slice", str(corpus), *options, "--out", str(out)]
            seconds, memory = in_a_process(arguments)
            size = sum(file.stat().st_size for file in out.iterdir()) / 1e9
            verdict = "reached" if memory <= GOAL_GB else "NOT reached"
            print(
                f"slice of {count:,} papers, {name}: {seconds:.1f} CPU-s, {size:.2f} GB written, "
                f"peak {memory:.2f} GB (goal <= {GOAL_GB:g}: {verdict})",
                flush=True,
            )


if __name__ == "__main__":
    main()
