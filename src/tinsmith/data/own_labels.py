"""Labels of a user's own works in a corpus built for them, and a check of graphs too sparse for a CD index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tinsmith.data.corpus import Corpus
from tinsmith.data.label_table import label_table, write_csv
from tinsmith.data.metrics import compute_metrics
from tinsmith.data.metrics_card import MetricSettings
from tinsmith.data.progress import Progress
from tinsmith.data.replacing import replacing
from tinsmith.data.schema import OWN_LABELS

_OPEN: Final = ", window open"
_FEW: Final = 0.1
"""Share of papers with a reference and a citer below which a graph is too sparse."""


@dataclass(frozen=True, slots=True)
class OwnLabels:
    """File with the labels of own works, and the number of works per label."""

    file: Path
    num_works: int
    labels: Mapping[str, int]


def write_own_labels(corpus: Corpus, progress: Progress) -> OwnLabels:
    """Compute the metrics of a corpus, and write `works.csv` with a row for each own work.

    Its columns are those of `label_table`.
    """
    compute_metrics(corpus, MetricSettings(), progress)
    rows = label_table(corpus).sort("id")
    file = corpus.folder / OWN_LABELS
    with replacing(file) as part:
        write_csv(rows, part)
    label = pl.col("disruption").fill_null("no label: no reference or no citer")
    named = pl.when(pl.col("full_window")).then(label).otherwise(label + _OPEN).alias("label")
    counts = rows.select(named)["label"].value_counts(sort=True)
    return OwnLabels(file, rows.height, dict(sorted(counts.iter_rows())))


def graph_warning(corpus: Corpus) -> str | None:
    """Return a warning if a corpus's graph is too sparse for a CD index, naming what is missing; otherwise None."""
    citing, cited = corpus.edges()
    count = corpus.card.papers
    cites, is_cited = np.bincount(citing, minlength=count) > 0, np.bincount(cited, minlength=count) > 0
    both = int((cites & is_cited).sum())
    if both >= _FEW * count:
        return None
    lost, known = corpus.card.dropped.get("dangling_edges", 0), corpus.papers("cited_by_count")["cited_by_count"].sum()
    references = f"of {corpus.card.edges + lost:,} references {lost:,} lead to papers that are not in it"
    citers = f"; of {known:,} citations that the source counts {len(cited):,} are in it" if known else ""
    return (
        f"the graph hardly carries a CD index: {both:,} of {count:,} papers have both a reference and a citer in it\n"
        f"  {references}{citers}\n"
        "  fetch their references and all citers too (openalex: --works FILE does), or build a whole field"
    )
