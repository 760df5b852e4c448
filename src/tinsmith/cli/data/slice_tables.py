"""What a person sees after `tinsmith data slice` and `tinsmith data baselines`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.table import Table

from tinsmith.data.baselines.report import BaselineReport, Figure, TargetReport
from tinsmith.data.corpus import Corpus
from tinsmith.data.labels import SEED_CUT, UNDEFINED, Disruption, Thresholds
from tinsmith.data.metrics_card import MetricsCard
from tinsmith.data.slices.card import SliceCard
from tinsmith.data.slices.settings import Task


def slice_lines(card: SliceCard) -> list[str]:
    """Return what was asked, what was removed and what there was to choose from, a fact a line."""
    settings = card.settings
    size = "natural" if settings.per_class is None else f"{settings.per_class:,} per class"
    removed = [f"{count:,} {name}" for name, count in card.removed.items() if count]
    pool = ", ".join(f"{count:,} {name}" for name, count in card.pool.items())
    lines = [
        f"task {settings.task}, {size}, seed {settings.seed}, splits {settings.scheme}",
        f"labels: {card.disruption_rule}",
        f"        {card.novelty_rule}",
        f"removed of {card.corpus.papers:,} papers: {'; '.join(removed) or 'none'}",
        f"to choose from: {pool}",
    ]
    if card.oversampled:
        repeats = ", ".join(f"{count:,} {name}" for name, count in card.oversampled.items())
        lines.append(f"repeated in training: {repeats}")
    if card.citations_from == "corpus" and settings.citations:
        lines.append("citations: counted in the corpus, because the source gives none")
    return lines


def slice_table(card: SliceCard) -> Table:
    """Return the rows of each split by label; by both labels of a joint slice."""
    table = Table("split", box=None, pad_edge=False, header_style="bold")
    table.add_column("rows", justify="right")
    task = card.settings.task
    asked = (Task.DISRUPTION, Task.NOVELTY) if task is Task.JOINT else (task,)
    names = [name for one in asked for name in one.classes]
    for name in names:
        table.add_column(name, justify="right")
    for split, one in card.splits.items():
        counts = {**one.disruption, **one.novelty}  # the labels of the two have no name in common
        table.add_row(split.value, f"{one.rows:,}", *(f"{counts[name]:,}" for name in names))
    return table


def baseline_lines(report: BaselineReport, target: TargetReport) -> list[str]:
    """Return what stands above and below the table of one label."""
    used = f"{report.train_rows:,}"
    if report.train_rows < report.train_rows_available:
        used = f"the first {used} of {report.train_rows_available:,}"
    test = target.scores[0].n
    return [
        f"{target.target}: trained on {used} rows, scored on {test:,}; "
        f"{report.confidence:.0%} intervals; the last columns are each class's recall",
        *(f"left out: {name}: {why}" for name, why in target.left_out.items()),
    ]


def baseline_table(target: TargetReport) -> Table:
    """Return one row a baseline: accuracy, macro-F1 and least recall with intervals, recalls."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("baseline", no_wrap=True)
    for name in ("accuracy", "macro-F1", "min recall"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in target.classes:
        table.add_column(f"{name[:4]}.", justify="right", no_wrap=True)
    for score in target.scores:
        table.add_row(
            score.baseline.value,
            _figure(score.accuracy),
            _figure(score.macro_f1),
            _figure(score.min_class_recall),
            *(f"{score.recall[name].value:.2f}" if name in score.recall else "-" for name in target.classes),
        )
    return table


def _figure(figure: Figure) -> str:
    low, high = (f"{bound:.2f}".removeprefix("0") for bound in (figure.low, figure.high))
    return f"{figure.value:.3f} {low}-{high}"


def summary(corpus: Corpus, card: MetricsCard, seconds: float) -> Mapping[str, str]:
    """Return name -> text in the order to show it; labels at the corpus's own cut, or else at the source notes'."""
    cut = corpus.card.thresholds or SEED_CUT
    columns = corpus.metrics("cd", "cd_status")
    cd = columns["cd"].fill_null(np.nan).to_numpy()
    codes = Thresholds(cut=cut).disruption_codes(cd, columns["cd_status"])
    labelled = max(1, int((codes != UNDEFINED).sum()))
    rows = {"papers": f"{card.papers:,}", "edges": f"{card.edges:,}"}
    rows |= {f"cd: {name.replace('_', ' ')}": f"{count:,}" for name, count in card.status.items()}
    rows["with a full window"] = f"{card.full_window:,}"
    for code, label in enumerate(Disruption):
        if label is not Disruption.NEUTRAL:
            share = int((codes == code).sum()) / labelled
            rows[f"{label} at |cd| >= {cut:g}"] = f"{share:.1%}"
    rows["with journal pairs"] = f"{card.scored:,}"
    if card.undefined_pair_cells:
        rows["pairs without spread"] = f"{card.undefined_pair_cells:,} of {card.pair_cells:,}"
    return rows | {"seconds": f"{seconds:.1f}", "fingerprint": card.fingerprint}
