"""Metrics stage: CD index, atypicality and scores of every paper, on the full graph.

Metrics on a sample of the papers would differ: with half the papers only 77 % of the labels stay the same. So they are
computed here, before a slice is cut. Titles and abstracts are never read.
"""

from __future__ import annotations

import datetime as dt
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.baselines.scores import score_frame
from tinsmith.data.content_digest import ContentDigest
from tinsmith.data.corpus import Corpus
from tinsmith.data.indices.atypicality import Atypicality, score_atypicality
from tinsmith.data.indices.cd import CdCounts, cd_frame, count_cd
from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.indices.journal_pairs import JournalReferences
from tinsmith.data.indices.windows import UNDATED
from tinsmith.data.metrics_card import FORMAT, Granularity, MetricsCard, MetricSettings, write_metrics_card
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.replacing import replacing
from tinsmith.data.schema import METRIC_COLUMNS, METRICS, METRICS_CARD
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of

_ROW_GROUP = 1 << 18


def compute_metrics(corpus: Corpus, settings: MetricSettings, progress: Progress | None = None) -> MetricsCard:
    """Compute the metrics of `corpus` and write them into its folder; equal arguments give equal bytes.

    Raises:
        ConfigError: a window longer than the one for which a user's own works were fetched.
        DataError: the corpus is damaged, or has no dates although days are requested.
    """
    _check_window(corpus, settings)
    progress = progress or Silent()
    scores = _atypicality(corpus, settings, progress)
    counts, full_window = _cd(corpus, settings, progress)
    years = corpus.papers("year")["year"].to_numpy()
    frame = pl.concat(
        [
            corpus.papers("id"),
            cd_frame(counts),
            pl.DataFrame({"full_window": full_window}),
            _z_frame(scores),
            score_frame(years, scores.z_median, scores.z_p10),
        ],
        how="horizontal",
    ).select(list(METRIC_COLUMNS))
    digest = ContentDigest(METRIC_COLUMNS)
    digest.update(frame)
    card = MetricsCard(
        settings=settings.echoed(),
        papers=frame.height,
        edges=corpus.card.edges,
        status={s.value: int((frame["cd_status"] == s.value).sum()) for s in CdStatus},
        full_window=int(full_window.sum()),
        scored=frame.height - frame["z_p10"].null_count(),
        pair_cells=scores.cells,
        undefined_pair_cells=scores.undefined_cells,
        corpus=corpus.card.fingerprint,
        fingerprint=sha256_of(
            {
                "format": FORMAT,
                "settings": settings.echoed(),
                "corpus": corpus.card.fingerprint,
                "columns": digest.sums(),
            }
        ),
    )
    with ExitStack() as stack:
        # The card is renamed last, and the old one removed before: no card ever describes another table.
        described = stack.enter_context(replacing(corpus.folder / METRICS_CARD))
        table = stack.enter_context(replacing(corpus.folder / METRICS))
        frame.write_parquet(table, compression="zstd", row_group_size=_ROW_GROUP)
        write_metrics_card(card, described)
        (corpus.folder / METRICS_CARD).unlink(missing_ok=True)
    return card


def _check_window(corpus: Corpus, settings: MetricSettings) -> None:
    """Refuse a window in which citers of the references of some works were not fetched."""
    if corpus.own_works() is None:
        return
    years = int(corpus.card.source.settings["window"])
    longest = replace(settings, window=years, window_days=None).length
    if settings.length > longest:
        raise ConfigError(
            f"citers were fetched for the {years} years after each of one's own works",
            field="window",
            value=settings.length,
            allowed=f"1 to {longest}",
        )


def _atypicality(corpus: Corpus, settings: MetricSettings, progress: Progress) -> Atypicality:
    papers = corpus.papers("year", "venue")
    references = JournalReferences.of(papers["year"].to_numpy(), papers["venue"], *corpus.edges())
    return score_atypicality(references, settings.null, settings.pool_years, progress)


def _cd(corpus: Corpus, settings: MetricSettings, progress: Progress) -> tuple[CdCounts, NDArray[np.bool_]]:
    """Return the counts, and a mask of papers whose whole window is covered by the corpus, (N,)."""
    times = _times(corpus, settings.granularity)
    counts = count_cd(*corpus.edges(), times, settings.length, progress)
    ends = times.astype(np.int64) + settings.length
    return counts, (times != UNDATED) & (ends <= _end(times, corpus.card.last_year, settings.granularity))


def _end(times: NDArray[np.int32], last_year: int, granularity: Granularity) -> int:
    """Return the time up to which the corpus is complete."""
    if granularity is Granularity.YEAR:
        return last_year
    last_day = (dt.date(last_year, 12, 31) - dt.date(1970, 1, 1)).days
    return int(times[times <= last_day].max())


def _times(corpus: Corpus, granularity: Granularity) -> NDArray[np.int32]:
    """Return each paper's year, or its day counted from 1970, (N,)."""
    if granularity is Granularity.YEAR:
        return corpus.papers("year")["year"].to_numpy()
    days = corpus.papers("date")["date"].to_physical()
    if days.null_count() == len(days):
        raise DataError("no paper of the corpus has a date", fix="use --granularity year")
    return days.fill_null(UNDATED).to_numpy()


def _z_frame(scores: Atypicality) -> pl.DataFrame:
    columns = {"z_median": scores.z_median, "z_p10": scores.z_p10, "pairs": scores.pairs}
    schema = {name: METRIC_COLUMNS[name] for name in columns}
    return pl.DataFrame(columns, schema=schema, nan_to_null=True)
