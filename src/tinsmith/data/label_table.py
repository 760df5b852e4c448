"""Table of every paper of a corpus with its metrics and both labels."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import SEED_CUT, Disruption, Novelty, Thresholds
from tinsmith.data.metrics_reader import read_metrics_card


def label_table(corpus: Corpus, thresholds: Thresholds | None = None) -> pl.DataFrame:
    """Return a row for each paper: id, title, year, venue, field, its metrics, and `disruption` and `novelty`.

    A missing label is null. The default cut is the corpus's own, or that of the source notes.

    Raises:
        DataError: the corpus has no metrics yet.
    """
    read_metrics_card(corpus)
    rules = thresholds or Thresholds(cut=corpus.card.thresholds or SEED_CUT)
    metrics = corpus.metrics()
    cd, status = metrics["cd"].fill_null(np.nan).to_numpy(), metrics["cd_status"]
    scores = [metrics[name].fill_null(np.nan).to_numpy() for name in ("novelty_score", "conventionality_score")]
    papers = corpus.papers("id", "title", "year", "venue", "field", "cited_by_count")
    return pl.concat([papers, metrics.drop("id")], how="horizontal").with_columns(
        _named("disruption", rules.disruption_codes(cd, status), tuple(Disruption)),
        _named("novelty", rules.novelty_codes(scores[0], scores[1]), tuple(Novelty)),
    )


def _named(name: str, codes: NDArray[np.int8], labels: tuple[str, ...]) -> pl.Series:
    return pl.Series(name, [labels[code] if code >= 0 else None for code in codes.tolist()], dtype=pl.String())
