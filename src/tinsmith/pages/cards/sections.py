"""The sections that a corpus's card and a slice's card share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.labels import UNDEFINED, Disruption, Novelty, Thresholds
from tinsmith.pages.cards.distributions import cd_figure, novelty_figure
from tinsmith.pages.cards.figures import years_figure
from tinsmith.pages.document import Block, Callout, Drawing, Section, Words
from tinsmith.pages.tables import Table, plain

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
    return Section("years", "Years", [Drawing(years_figure(years, series), caption)])


def cd_section(metrics: pl.DataFrame, thresholds: Thresholds, texts: Sequence[str], tables: Sequence[Table]) -> Section:
    """Show the CD indices in `metrics` (cd, cd_status) that have a label under `thresholds`."""
    cd = metrics["cd"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    codes = thresholds.disruption_codes(cd, metrics["cd_status"])
    labelled = codes != UNDEFINED
    counts = label_counts(codes, [label.value for label in Disruption])
    drawings: list[Block] = []
    if labelled.any():
        caption = (
            f"{int(labelled.sum()):,} CD indices on a signed logarithmic axis, papers on a logarithmic one. "
            f"Dashed lines: the cut at ±{thresholds.cut:g}. Zero has a bin of its own: a paper that nobody "
            "cites in its window, but whose references are cited, has exactly 0."
        )
        drawings.append(Drawing(cd_figure(cd[labelled], thresholds.cut, counts), caption))
    return Section("disruption", "Disruption", [*map(Words, (ABOUT_CD, *texts)), *drawings, *tables])


def novelty_section(metrics: pl.DataFrame, thresholds: Thresholds, texts: Sequence[str] = ()) -> Section:
    """Show novelty against conventionality for the papers in `metrics` that have both."""
    columns = ("novelty_score", "conventionality_score")
    novelty, conventionality = (metrics[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in columns)
    codes = thresholds.novelty_codes(novelty, conventionality)
    counts = label_counts(codes, [label.value for label in Novelty])
    known = metrics.select("z_median", "z_p10").drop_nulls()
    total = sum(counts.values())
    if not known.height:
        note = "No paper has a novelty score: that takes two references whose journal is known."
        return Section("novelty", "Novelty", [Words(ABOUT_NOVELTY), Callout(note, [])])
    caption = (
        f"{known.height:,} papers; the outermost thousandths are beyond the edges. Between the dashed lines "
        f"the two sigmoid scores differ by less than {thresholds.margin:g}: balanced, which is also where "
        "papers high on both are."
    )
    drawing = novelty_figure(known["z_median"].to_numpy(), known["z_p10"].to_numpy(), thresholds.margin)
    table = plain(
        "Novelty labels",
        ("label", "papers", "share"),
        [*counted_rows(counts, total), ("no label", f"{len(codes) - total:,}", "")],
    )
    return Section("novelty", "Novelty", [*map(Words, (ABOUT_NOVELTY, *texts)), Drawing(drawing, caption), table])


def quantity(value: float | None) -> str:
    """Show a count, or a dash where there is none."""
    return "\u2013" if value is None else f"{value:,.0f}"


def share(part: int, whole: int) -> str:
    """Show a part of a whole in per cent."""
    if not whole:
        return "\u2013"
    percent = 100 * part / whole
    return "< 0.1 %" if part and percent < 0.05 else f"{percent:.1f} %"


def counted_rows(counts: Mapping[str, int], whole: int) -> list[tuple[str, str, str]]:
    """Return rows of name, count and share of `whole`."""
    return [(name, quantity(value), share(value, whole)) for name, value in counts.items()]
