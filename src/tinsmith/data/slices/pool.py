"""Pool of a corpus's papers for a slice, their labels, and counts of the excluded ones by reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import UNDEFINED, Novelty
from tinsmith.data.slices.copies import find_copies
from tinsmith.data.slices.leave_out import LeftOut
from tinsmith.data.slices.settings import SliceSettings, Task
from tinsmith.types.errors import DataError

LEFT_OUT = "left out by id"
"""Name of the first filter in counts of removed papers."""
_METRICS = ("id", "references", "citations", "cd", "cd_status", "full_window", "novelty_score", "conventionality_score")


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Pool of the n papers that passed the filters, in the corpus's order, without texts."""

    rows: NDArray[np.uint32]
    """Row numbers in the corpus, ascending, (n,)."""
    ids: list[str]
    disruption: NDArray[np.int8]
    """Codes in `Disruption`, (n,); UNDEFINED without a label."""
    novelty: NDArray[np.int8]
    """Codes in `Novelty`, (n,)."""
    removed: dict[str, int]
    """Papers removed by each filter from those that passed the earlier ones, in order."""
    copies: Mapping[int, str] = field(default_factory=dict[int, str])
    """Position of a paper with the title and abstract of an earlier one -> the id of the corpus's first."""

    def classes(self, task: Task) -> NDArray[np.int8]:
        """Return the codes over which a slice for `task` is balanced, (n,)."""
        if task is Task.JOINT:
            return (len(Novelty) * self.disruption + self.novelty).astype(np.int8)
        return self.novelty if task is Task.NOVELTY else self.disruption


def gather_pool(corpus: Corpus, settings: SliceSettings, left_out: LeftOut | None = None) -> Pool:
    """Filter and label the papers of `corpus`; its abstracts are read, but not retained.

    Raises:
        DataError: the corpus has no metrics yet, no paper is left, or none of the papers to exclude is in it.
    """
    frame = _facts(corpus)
    thresholds = settings.thresholds
    disruption = thresholds.disruption_codes(_numbers(frame["cd"]), frame["cd_status"])
    novelty = thresholds.novelty_codes(_numbers(frame["novelty_score"]), _numbers(frame["conventionality_score"]))
    left = np.ones(frame.height, np.bool_)
    removed: dict[str, int] = {}
    if left_out is not None:
        _apply(LEFT_OUT, ~frame["id"].is_in(sorted(left_out)).to_numpy(), left, removed)
        if left.all():
            raise DataError(
                f"none of the {len(left_out):,} ids to be left out is in the corpus",
                field="--leave-out",
                value=min(left_out),
                allowed=f"ids of papers, such as {frame['id'][0]!r}",
            )
    for name, passes in _filters(frame, settings).items():
        _apply(name, passes.to_numpy(), left, removed)
    if settings.task is not Task.NOVELTY:
        _apply("without a disruption label", disruption != UNDEFINED, left, removed)
    if settings.task is not Task.DISRUPTION:
        _apply("without a novelty label", novelty != UNDEFINED, left, removed)
    rows = np.flatnonzero(left).astype(np.uint32)
    if not rows.size:
        name, count = max(removed.items(), key=lambda item: item[1], default=("", 0))
        raise DataError(
            f"no paper of {frame.height:,} is left for the slice",
            fix=f"relax the filter that removed the most: {count:,} {name}",
        )
    ids = frame["id"].gather(rows).to_list()
    first = find_copies(corpus)
    copies = {position: first[one] for position, one in enumerate(ids) if one in first}
    return Pool(rows, ids, disruption[rows], novelty[rows], removed, copies)


def _apply(name: str, passes: NDArray[np.bool_], left: NDArray[np.bool_], removed: dict[str, int]) -> None:
    before = int(left.sum())
    left &= passes
    removed[name] = before - int(left.sum())


def _facts(corpus: Corpus) -> pl.DataFrame:
    """Return the input of the filters, one row per paper; the texts are streamed."""

    def present(column: str) -> pl.Expr:
        return (pl.col(column).str.strip_chars().str.len_bytes() > 0).fill_null(False)

    metrics = corpus.metrics(*_METRICS)
    papers = (
        corpus.scan_papers()
        .select("id", "year", "date", present("title").alias("has_title"), present("abstract").alias("has_abstract"))
        .collect(engine="streaming")
    )
    if not papers["id"].equals(metrics["id"]):
        raise DataError(
            "the metrics have other papers than the corpus, or another order",
            fix=f"run: tinsmith data metrics {corpus.folder}",
        )
    return papers.hstack(metrics.drop("id"))


def _filters(frame: pl.DataFrame, settings: SliceSettings) -> dict[str, pl.Series]:
    """Return a mask of the passing papers for each filter, in order."""
    passes = {"without a title": frame["has_title"], "without an abstract": frame["has_abstract"]}
    # A paper with only a year passes if every day of that year does.
    if settings.before is not None:
        last = pl.col("date").fill_null(pl.date("year", 12, 31))
        passes[f"not before {settings.before}"] = _where(frame, last < settings.before)
    if settings.after is not None:
        first = pl.col("date").fill_null(pl.date("year", 1, 1))
        passes[f"before {settings.after}"] = _where(frame, first >= settings.after)
    if settings.min_references:
        passes[f"fewer than {settings.min_references} references"] = frame["references"] >= settings.min_references
    if settings.min_citers:
        passes[f"fewer than {settings.min_citers} citers"] = frame["citations"] >= settings.min_citers
    if settings.full_window:
        passes["window not in the corpus"] = frame["full_window"]
    if settings.status is not None:
        passes[f"cd_status not {settings.status}"] = frame["cd_status"] == settings.status.value
    return {name: which.fill_null(False) for name, which in passes.items()}


def _where(frame: pl.DataFrame, condition: pl.Expr) -> pl.Series:
    return frame.select(condition.alias("passes")).to_series()


def _numbers(series: pl.Series) -> NDArray[np.float64]:
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
