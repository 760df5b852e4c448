"""The sections that a corpus's card and a slice's card share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.card_distributions import cd_figure, novelty_figure
from tinsmith.data.card_figures import years_figure
from tinsmith.data.card_page import Drawing, Section, Table, counted
from tinsmith.data.labels import UNDEFINED, Disruption, Novelty, Thresholds

ABOUT_CD = (
    "The CD index of a paper is (nᵢ − nⱼ) / (nᵢ + nⱼ + nₖ): of the later papers in its window, nᵢ cite it "
    "but none of its references, nⱼ cite both, nₖ cite only its references (Funk and Owen-Smith 2017). "
    "It counts citations within the corpus and is computed on the whole graph, never on a sample."
)
ABOUT_NOVELTY = (
    "Every pair of journals a paper cites has a z-score: how much more often it occurs than its journals' "
    "frequencies suggest. The median is the paper's conventionality, the 10th percentile its novelty: the "
    "lower, the more novel (Uzzi et al. 2013)."
)


def label_counts(codes: NDArray[np.int8], names: Sequence[str]) -> dict[str, int]:
    """Count labelled papers by name; codes (n,) are positions in `names`."""
    counts = np.bincount(codes[codes != UNDEFINED], minlength=len(names))
    return dict(zip(names, counts.tolist(), strict=True))


def years_section(years: NDArray[np.int64], series: Mapping[str, NDArray[np.int64]]) -> Section:
    """Show papers per year (n,), by the counts of each name in `series`."""
    caption = "Papers by year of publication" + (", by label." if len(series) > 1 else ".")
    return Section(
        anchor="years", title="Years", drawings=[Drawing(years_figure(years, series), caption)]
    )


def cd_section(
    metrics: pl.DataFrame, thresholds: Thresholds, texts: Sequence[str], tables: Sequence[Table]
) -> Section:
    """Show the CD indices in `metrics` (cd, cd_status) that have a label under `thresholds`."""
    cd = metrics["cd"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    codes = thresholds.disruption_codes(cd, metrics["cd_status"])
    labelled = codes != UNDEFINED
    counts = label_counts(codes, [label.value for label in Disruption])
    drawings: list[Drawing] = []
    if labelled.any():
        caption = (
            f"{int(labelled.sum()):,} CD indices on a signed logarithmic axis, papers on a logarithmic one. "
            f"Dashed lines: the cut at ±{thresholds.cut:g}. Zero has a bin of its own: a paper that nobody "
            "cites in its window, but whose references are cited, has exactly 0."
        )
        drawings.append(Drawing(cd_figure(cd[labelled], thresholds.cut, counts), caption))
    return Section(
        anchor="disruption",
        title="Disruption",
        texts=[ABOUT_CD, *texts],
        drawings=drawings,
        tables=tables,
    )


def novelty_section(
    metrics: pl.DataFrame, thresholds: Thresholds, texts: Sequence[str] = ()
) -> Section:
    """Show novelty against conventionality for the papers in `metrics` that have both."""
    columns = ("novelty_score", "conventionality_score")
    novelty, conventionality = (
        metrics[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in columns
    )
    codes = thresholds.novelty_codes(novelty, conventionality)
    counts = label_counts(codes, [label.value for label in Novelty])
    known = metrics.select("z_median", "z_p10").drop_nulls()
    total = sum(counts.values())
    if not known.height:
        note = "No paper has a novelty score: that takes two references whose journal is known."
        return Section(anchor="novelty", title="Novelty", texts=[ABOUT_NOVELTY], notes=[note])
    caption = (
        f"{known.height:,} papers; the outermost thousandths are beyond the edges. Between the dashed lines "
        f"the two sigmoid scores differ by less than {thresholds.margin:g}: balanced, which is also where "
        "papers high on both are."
    )
    drawing = novelty_figure(
        known["z_median"].to_numpy(), known["z_p10"].to_numpy(), thresholds.margin
    )
    table = Table(
        caption="Novelty labels",
        header=("label", "papers", "share"),
        rows=[
            *counted(counts, total),
            ("no label", f"{len(codes) - total:,}", ""),
        ],
    )
    return Section(
        anchor="novelty",
        title="Novelty",
        texts=[ABOUT_NOVELTY, *texts],
        drawings=[Drawing(drawing, caption)],
        tables=[table],
    )
