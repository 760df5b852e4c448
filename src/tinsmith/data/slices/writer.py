"""Writer of a slice's splits, which reads only the selected papers' texts, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import Disruption, Novelty
from tinsmith.data.progress import Progress
from tinsmith.data.slices.rows import PaperRow, encode_row

_BLOCK = 100_000
"""Rows whose texts are in memory at a time."""
_TEXTS = ("id", "title", "abstract", "field", "concepts")


def write_rows(corpus: Corpus, facts: pl.DataFrame, path: Path, progress: Progress) -> None:
    """Write one line for each row of `facts`, in order, with its texts from `corpus`.

    `facts` has the columns id, publication_year, cited_by_count, cd_index, novelty_score, conventionality_score,
    disruption_label and novelty_label, with their final values.
    """
    with path.open("wb") as file:
        for block in facts.iter_slices(_BLOCK):
            for row in _rows(_with_texts(corpus, block)):
                file.write(encode_row(row))
            progress.advance(block.height)


def _with_texts(corpus: Corpus, facts: pl.DataFrame) -> pl.DataFrame:
    # A filter on the id lets the reader skip all other papers' texts.
    texts = (
        corpus.scan_papers()
        .filter(pl.col("id").is_in(facts["id"].unique().implode()))
        .select(_TEXTS)
        .collect(engine="streaming")
    )
    return facts.join(texts, on="id", how="left", maintain_order="left")


def _rows(table: pl.DataFrame) -> Iterator[PaperRow]:
    for row in table.iter_rows(named=True):
        disruption, novelty = row["disruption_label"], row["novelty_label"]
        yield PaperRow(
            openalex_id=row["id"],
            title=row["title"],
            abstract=row["abstract"],
            publication_year=row["publication_year"],
            cited_by_count=row["cited_by_count"],
            cd_index=row["cd_index"],
            novelty_score=row["novelty_score"],
            conventionality_score=row["conventionality_score"],
            disruption_label=None if disruption is None else Disruption(disruption),
            novelty_label=None if novelty is None else Novelty(novelty),
            primary_field=row["field"],
            concepts=tuple(row["concepts"]),
        )
