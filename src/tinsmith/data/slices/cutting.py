"""Cutting of a frozen slice from a corpus: filter, label, select by hash, write the selected papers only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import Disruption, LabelMode, Novelty, legacy_rounded
from tinsmith.data.metrics_card import MetricsCard
from tinsmith.data.metrics_reader import read_metrics_card
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.slices.card import CorpusReference, SliceCard, SplitCard
from tinsmith.data.slices.freezing import check_own_folder, check_same, freeze, previous_card
from tinsmith.data.slices.leave_out import LeftOut
from tinsmith.data.slices.pool import Pool, gather_pool
from tinsmith.data.slices.selection import Selection, select
from tinsmith.data.slices.settings import SliceSettings
from tinsmith.data.slices.splits import Split, SplitScheme, legacy_sha256
from tinsmith.data.slices.writer import write_rows


def make_slice(
    corpus: Corpus,
    settings: SliceSettings,
    out: Path,
    progress: Progress | None = None,
    *,
    force: bool = False,
    left_out: LeftOut | None = None,
) -> SliceCard:
    """Cut a slice and write it to the folder `out`; an equal slice is rewritten, another one only with `force`.

    An equal slice keeps its baselines and its page, and a failure leaves the old slice whole.

    Every choice follows from the papers' ids and `settings.seed`, and from which texts are equal: the same corpus gives
    the same bytes. A paper added later moves another one to a different split only if it has the same title and
    abstract and is earlier. Papers in `left_out` are excluded.

    Raises:
        ConfigError: a class has fewer papers than requested, or `out` is a corpus or another slice.
        DataError: the corpus has no metrics yet, or no paper passes the filters.
    """
    check_own_folder(out, corpus.folder)
    if left_out is not None:
        settings = replace(settings, left_out=left_out.sha256)
    progress = progress or Silent()
    progress.begin("labelling papers", None)
    metrics = read_metrics_card(corpus)
    there = previous_card(out)
    if there is not None and not force:
        check_same((corpus.card.fingerprint, metrics.fingerprint), settings, there, out)
    pool = gather_pool(corpus, settings, left_out)
    selection = select(pool, settings)
    citations_from, table = _table(corpus, pool, selection)
    is_open = ~table["full_window"] & table["disruption_label"].is_not_null()
    progress.begin("writing rows", table.height)
    return freeze(
        out,
        table,
        lambda rows, part: write_rows(corpus, _facts(rows, settings), part, progress),
        lambda splits: _card(corpus, settings, pool, selection, metrics, citations_from, int(is_open.sum()), splits),
        force=force,
    )


def _table(corpus: Corpus, pool: Pool, selection: Selection) -> tuple[str, pl.DataFrame]:
    """Return the source of citation counts, and all columns except texts of every row, split by split."""
    position = np.concatenate([selection.members[split] for split in Split])
    rows = pool.rows[position]
    table = corpus.metrics().with_columns(corpus.papers("year", "cause", "cited_by_count"))
    published = table["cited_by_count"].null_count() < table.height
    names = np.repeat([str(split) for split in Split], [len(selection.members[s]) for s in Split])
    table = table[rows].with_columns(
        pl.Series("split", names.tolist(), dtype=pl.String),
        _named("disruption_label", pool.disruption[position], Disruption),
        _named("novelty_label", pool.novelty[position], Novelty),
    )
    if published:
        return "source", table
    return "corpus", table.with_columns(cited_by_count=pl.col("citations").cast(pl.Int64))


def _named(column: str, codes: NDArray[np.int8], labels: Iterable[Disruption] | Iterable[Novelty]) -> pl.Series:
    names = [*(str(label) for label in labels), None]  # the code of a missing label is -1: the last
    return pl.Series(column, [names[code] for code in codes.tolist()], dtype=pl.String)


def _facts(rows: pl.DataFrame, settings: SliceSettings) -> pl.DataFrame:
    """Return the columns for `write_rows`, with null for those that the slice excludes."""

    def number(column: str) -> pl.Series:
        values = rows[column].fill_nan(None)
        if settings.thresholds.mode is not LabelMode.LEGACY:
            return values
        return pl.Series(legacy_rounded(values.to_numpy())).fill_nan(None)

    def nothing(column: str) -> pl.Expr:
        return pl.lit(None, pl.Int64).alias(column)

    return rows.select(
        "id",
        pl.col("year").alias("publication_year") if settings.year else nothing("publication_year"),
        "cited_by_count" if settings.citations else nothing("cited_by_count"),
        number("cd").alias("cd_index"),
        number("novelty_score").alias("novelty_score"),
        number("conventionality_score").alias("conventionality_score"),
        "disruption_label",
        "novelty_label",
    )


def _card(
    corpus: Corpus,
    settings: SliceSettings,
    pool: Pool,
    selection: Selection,
    metrics: MetricsCard,
    citations_from: str,
    open_windows: int,
    splits: dict[Split, SplitCard],
) -> SliceCard:
    disruption_rule, novelty_rule = settings.thresholds.sentences()
    classes = settings.task.classes
    counts = np.bincount(pool.classes(settings.task), minlength=len(classes)).tolist()
    ids = {split: [pool.ids[i] for i in rows.tolist()] for split, rows in selection.members.items()}
    return SliceCard(
        settings=settings,
        disruption_rule=disruption_rule,
        novelty_rule=novelty_rule,
        citations_from=citations_from,
        corpus=CorpusReference(
            fingerprint=corpus.card.fingerprint,
            source=corpus.card.source.kind.value,
            papers=corpus.card.papers,
            edges=corpus.card.edges,
            metrics=metrics.settings,
            metrics_fingerprint=metrics.fingerprint,
        ),
        removed=pool.removed,
        pool=dict(zip(classes, counts, strict=True)),
        oversampled=selection.oversampled,
        splits=splits,
        legacy_sha256=legacy_sha256(ids) if settings.scheme is SplitScheme.LEGACY else None,
        moved=selection.moved or msgspec.UNSET,
        shared=selection.shared or msgspec.UNSET,
        open_windows=open_windows or msgspec.UNSET,
    ).sealed()
