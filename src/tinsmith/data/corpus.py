"""Access to a corpus folder's papers, edges and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.corpus_card import CorpusCard, SourceKind, read_card
from tinsmith.data.schema import (
    EDGE_COLUMNS,
    EDGES,
    METRIC_COLUMNS,
    METRICS,
    NOVELTY_COLUMNS,
    OWN_WORKS,
    PAPER_COLUMNS,
    PAPERS,
    WORKS_INPUT,
)
from tinsmith.types.errors import DataError


@dataclass(frozen=True, slots=True)
class Corpus:
    """Complete corpus folder; only its card is in memory."""

    folder: Path
    card: CorpusCard

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Open a corpus; its tables must have the card's numbers of rows and the right columns.

        Raises:
            DataError: the folder is not a corpus, or is damaged; the message suggests a remedy.
        """
        corpus = cls(folder, read_card(folder))
        _check(folder / PAPERS, PAPER_COLUMNS, corpus.card.papers)
        _check(folder / EDGES, EDGE_COLUMNS, corpus.card.edges)
        return corpus

    def papers(self, *columns: str) -> pl.DataFrame:
        """Return the papers in row order, with all or only some `columns`.

        Raises:
            DataError: an unknown column.
        """
        return _read(self.scan_papers(), PAPER_COLUMNS, columns)

    def scan_papers(self) -> pl.LazyFrame:
        """Return the papers as a lazy frame in row order."""
        return _scan(self.folder / PAPERS)

    def edges(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return (citing, cited) row numbers, shape (E,) each, sorted by both, unique, without self-loops."""
        table = pl.read_parquet(self.folder / EDGES, glob=False)
        return table["citing"].to_numpy(), table["cited"].to_numpy()

    def own_works(self) -> list[str] | None:
        """Return the ids of the works for which the corpus was built; None if it was not built for some works.

        Raises:
            DataError: their list is missing or damaged.
        """
        source = self.card.source
        if source.kind is not SourceKind.OPENALEX or source.settings.get("input") != WORKS_INPUT:
            return None
        try:
            return (self.folder / OWN_WORKS).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{self.folder / OWN_WORKS} cannot be read: {error}", fix="build the corpus again"
            ) from None

    def metrics(self, *columns: str) -> pl.DataFrame:
        """Return the metrics in row order, with all or only some `columns`.

        Of a corpus built for some works, the metrics of all other papers and the novelty of all are null: the graph
        that they need is not in it.

        Raises:
            DataError: they are not computed yet, or do not belong to these papers; an unknown column.
        """
        path = self.folder / METRICS
        again = f"run: tinsmith data metrics {self.folder}"
        if not path.exists():
            raise DataError("the corpus has no metrics yet", fix=again)
        try:
            frame = _read(_valid(_scan(path), self.own_works()), METRIC_COLUMNS, columns)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise DataError(f"{path}: {str(error).splitlines()[0]}", fix=again) from None
        if frame.height != self.card.papers:
            raise DataError(f"{METRICS} has {frame.height} rows for {self.card.papers} papers", fix=again)
        return frame


def _scan(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path, glob=False)


def _valid(metrics: pl.LazyFrame, own: list[str] | None) -> pl.LazyFrame:
    """Remove metrics that the graph around some `own` works does not determine."""
    if own is None:
        return metrics
    cd = [name for name in METRIC_COLUMNS if name not in ("id", *NOVELTY_COLUMNS)]
    nothing = [pl.lit(None, METRIC_COLUMNS[name]).alias(name) for name in NOVELTY_COLUMNS]
    return metrics.with_columns(pl.when(pl.col("id").is_in(own)).then(pl.col(cd)), *nothing)


def _read(frame: pl.LazyFrame, known: dict[str, pl.DataType], columns: tuple[str, ...]) -> pl.DataFrame:
    for name in columns:
        if name not in known:
            raise DataError("no such column", field="column", value=name, allowed=known)
    return frame.select(columns or list(known)).collect()


def _check(path: Path, columns: dict[str, pl.DataType], rows: int) -> None:
    build = "build the corpus again"
    if not path.exists():
        raise DataError(f"the corpus is incomplete: {path} is missing", fix=build)
    try:
        frame = _scan(path)
        schema, height = frame.collect_schema(), frame.select(pl.len()).collect().item()
    except pl.exceptions.PolarsError as error:
        raise DataError(f"{path} is damaged: {str(error).splitlines()[0]}", fix=build) from None
    if dict(schema) != columns:
        wrong = sorted(set(schema.items()) ^ set(columns.items()), key=str)
        raise DataError(f"{path} has other columns: {wrong[0][0]}", fix=build)
    if height != rows:
        raise DataError(f"{path} has {height} rows, the card says {rows}", fix=build)
