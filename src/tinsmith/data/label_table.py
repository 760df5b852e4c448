"""Table of every paper of a corpus with its metrics and both labels; and tables as CSV that no spreadsheet runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import SEED_CUT, Disruption, Novelty, Thresholds
from tinsmith.data.metrics_reader import read_metrics_card
from tinsmith.data.schema import NOVELTY_COLUMNS

_FORMULA = r"^([=+\-@\t\r])"
"""Beginning of a text that spreadsheets run as a formula."""


def label_table(corpus: Corpus, thresholds: Thresholds | None = None) -> pl.DataFrame:
    """Return a row for each paper: id, title, year, venue, field, its metrics, and `disruption` and `novelty`.

    A missing label is null. The default cut is the corpus's own, or that of the source notes. Of a corpus that was
    built for some works only these are returned, without novelty (see `Corpus.metrics`).

    Raises:
        DataError: the corpus has no metrics yet.
    """
    read_metrics_card(corpus)
    rules = thresholds or Thresholds(cut=corpus.card.thresholds or SEED_CUT)
    metrics = corpus.metrics()
    cd, status = metrics["cd"].fill_null(np.nan).to_numpy(), metrics["cd_status"]
    scores = [metrics[name].fill_null(np.nan).to_numpy() for name in ("novelty_score", "conventionality_score")]
    papers = corpus.papers("id", "title", "year", "venue", "field", "cited_by_count")
    table = pl.concat([papers, metrics.drop("id")], how="horizontal").with_columns(
        _named("disruption", rules.disruption_codes(cd, status), tuple(Disruption)),
        _named("novelty", rules.novelty_codes(scores[0], scores[1]), tuple(Novelty)),
    )
    own = corpus.own_works()
    return table if own is None else table.filter(pl.col("id").is_in(own)).drop(*NOVELTY_COLUMNS, "novelty")


def papers_per_year(corpus: Corpus) -> Mapping[int, int]:
    """Count the papers of each year; of a corpus built for some works only these."""
    own = corpus.own_works()
    if own is None:
        return corpus.card.years
    return Counter(corpus.papers("id", "year").filter(pl.col("id").is_in(own))["year"])


def own_works_note(corpus: Corpus) -> str | None:
    """Return a sentence on the missing rows and columns of a corpus built for some works; None for other corpora."""
    own = corpus.own_works()
    if own is None:
        return None
    count = int(corpus.papers("id")["id"].is_in(own).sum())
    return (
        f"{count:,} of {corpus.card.papers:,} papers, and no novelty: the others were fetched for the CD indices of "
        "these, and their own citations are not complete"
    )


def _named(name: str, codes: NDArray[np.int8], labels: tuple[str, ...]) -> pl.Series:
    return pl.Series(name, [labels[code] if code >= 0 else None for code in codes.tolist()], dtype=pl.String())


def write_csv(table: pl.DataFrame, path: Path) -> None:
    """Write a table; a text that begins as a formula does gets an apostrophe before it; numbers stay as they are."""
    table.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'${1}")).write_csv(path)
