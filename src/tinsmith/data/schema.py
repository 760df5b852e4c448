"""Schema of a corpus folder: file names, columns and their types.

`papers.parquet` is sorted by (year, date with missing first, id); a paper's row number is its index in `edges.parquet`
(`citing`, `cited`), which is sorted, unique and without self-loops. Rows of one year, and dated rows of one day, are
therefore contiguous: so a time window is a range of rows. `metrics.parquet` has one row for each row of
`papers.parquet`, in the same order.
"""

from __future__ import annotations

import polars as pl

PAPERS = "papers.parquet"
EDGES = "edges.parquet"
CARD = "card.json"
METRICS = "metrics.parquet"
METRICS_CARD = "metrics.json"
OWN_WORKS = "works.txt"
"""Ids of the works for which a corpus was built, one per line; only in the folder of such a corpus."""
OWN_LABELS = "works.csv"
"""Labels of those works; only in the folder of such a corpus."""
WORKS_INPUT = "works"
"""Input, in a card's settings of its source, of a corpus that was built for some works."""

PAPER_COLUMNS: dict[str, pl.DataType] = {
    "id": pl.String(),
    "title": pl.String(),
    "abstract": pl.String(),
    "year": pl.Int32(),  # never null: papers without a year are dropped and counted
    "date": pl.Date(),  # null if the source knows the year only
    "venue": pl.String(),  # the journal's name
    "field": pl.String(),
    "concepts": pl.List(pl.String()),  # never null
    "type": pl.String(),
    "language": pl.String(),
    "cited_by_count": pl.Int64(),  # as the source reports; null if it does not
    # As published by the source, with its own definitions and horizon; never mixed with computed ones.
    "published_disruption": pl.Float64(),
    "published_z_median": pl.Float64(),
    "published_z_p10": pl.Float64(),
    "published_pairs": pl.Int64(),
    "cause": pl.String(),  # latent class of a synthetic world, for its oracle baseline
}

EDGE_COLUMNS: dict[str, pl.DataType] = {"citing": pl.UInt32(), "cited": pl.UInt32()}

METRIC_COLUMNS: dict[str, pl.DataType] = {
    "id": pl.String(),
    "references": pl.UInt32(),  # in the corpus
    "citations": pl.UInt32(),  # in the corpus, at any time
    "n_i": pl.UInt32(),  # citers in the window that cite no reference of the paper
    "n_j": pl.UInt32(),  # citers in the window that also cite at least one
    "n_k": pl.UInt32(),  # papers in the window that cite references only
    "cd": pl.Float64(),
    "cd_status": pl.String(),
    "full_window": pl.Boolean(),  # true if the corpus covers the paper's whole window
    "mcd_cdindex": pl.Float64(),  # cd times citers up to the window's end, earlier ones included
    "mcd_window": pl.Float64(),  # cd times citers in the window
    "di_no_k": pl.Float64(),  # (n_i - n_j) / (n_i + n_j)
    "n_j5": pl.UInt32(),  # citers in the window that cite at least five references
    "di_5": pl.Float64(),  # cd with n_j counting only citers of at least five shared references
    "dep": pl.Float64(),  # mean shared references of the citers in the window
    "z_median": pl.Float64(),  # Uzzi's conventionality
    "z_p10": pl.Float64(),  # Uzzi's novelty: lower is more novel
    "pairs": pl.UInt32(),  # journal pairs among the references
    "novelty_score": pl.Float64(),  # sigmoid(clamp(-z_p10, -8, 8)), as in the source notes
    "conventionality_score": pl.Float64(),  # sigmoid(clamp(z_median, -8, 8))
    "novelty_percentile": pl.Float64(),  # rank of -z_p10 among the papers of the same year, in [0, 1]
    "conventionality_percentile": pl.Float64(),  # rank of z_median among the papers of the same year
}

NOVELTY_COLUMNS = tuple(METRIC_COLUMNS)[list(METRIC_COLUMNS).index("z_median") :]
"""Metrics that compare a paper's journal pairs with those of all papers of a year."""
