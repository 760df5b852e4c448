"""The card of a corpus: what is in it, what was dropped, what labels its numbers would give; and shared sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceKind
from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.labels import SEED_CUT, UNDEFINED, Disruption, Novelty, Thresholds
from tinsmith.data.metrics_reader import read_metrics_card
from tinsmith.data.schema import METRICS
from tinsmith.pages.cards.distributions import cd_figure, novelty_figure, years_figure
from tinsmith.pages.document import Block, Callout, Document, Drawing, Section, Words
from tinsmith.pages.tables import Table, flattened, plain

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


_CUTS = (0.001, 0.01, 0.02, 0.1)
_TITLES = {
    SourceKind.OPENALEX: "OpenAlex corpus of {} papers",
    SourceKind.SCISCINET: "SciSciNet corpus of {} papers",
    SourceKind.FILES: "Corpus of {} papers from files",
    SourceKind.SYNTHETIC: "Synthetic corpus of {} papers",
}
_STATUSES = {
    CdStatus.OK: "references and citers in the window",
    CdStatus.NO_REFS: "no reference in the corpus; 1 by construction, no label by default",
    CdStatus.NO_WINDOW_CITERS: "no citer in the window; exactly 0",
    CdStatus.EMPTY: "neither; undefined, no label",
}


def corpus_page(corpus: Corpus) -> Document:
    """Return the card of `corpus`; the parts that need metrics are left out where there are none."""
    card = corpus.card
    years = sorted(card.years)
    with_text = card.papers - max(card.missing.get("title", 0), card.missing.get("abstract", 0))
    sections: list[Section] = []
    if years:
        span = np.arange(years[0], card.last_year + 1)
        counts = np.array([card.years.get(int(year), 0) for year in span])
        sections.append(years_section(span, {"papers": counts}))
    measured = (corpus.folder / METRICS).exists()
    todo = Callout("The metrics are not computed yet. Run: tinsmith data metrics CORPUS", [])
    sections += _measured(corpus) if measured else [Section("disruption", "Disruption and novelty", [todo])]
    return Document(
        kind="Corpus card",
        title=_TITLES[card.source.kind].format(f"{card.papers:,}"),
        question="Papers and the citations between them, from one source, complete as far as the source is.",
        facts=[
            ("papers", quantity(card.papers)),
            ("citations", quantity(card.edges)),
            ("years", f"{years[0]}–{years[-1]}" if years else "–"),
            ("with an abstract", share(with_text, card.papers)),
            ("references per paper", f"{card.edges / max(card.papers, 1):.1f}"),
            ("metrics", "computed" if measured else "not yet"),
        ],
        sections=[*sections, _missing(corpus), _dropped(corpus), _provenance(corpus)],
        foot=f"from corpus {card.fingerprint}; the same corpus gives the same page, byte for byte.",
    )


def _measured(corpus: Corpus) -> list[Section]:
    columns = ("cd", "cd_status", "z_median", "z_p10", "novelty_score", "conventionality_score")
    metrics = corpus.metrics(*columns)
    recommended = corpus.card.thresholds
    thresholds = Thresholds(cut=SEED_CUT if recommended is None else recommended)
    cut = f"±{thresholds.cut:g}"
    text = (
        f"The figure uses the cut {cut} that this synthetic world is made for."
        if recommended is not None
        else f"The figure uses the source notes' cut {cut}; a slice names its own."
    )
    counts = metrics["cd_status"].value_counts()
    by_status = dict(zip(counts["cd_status"], counts["count"], strict=True))
    rows = [
        (f"{status}: {meaning}", quantity(count), share(count, metrics.height))
        for status, meaning in _STATUSES.items()
        for count in [by_status.get(status.value, 0)]
    ]
    statuses = plain("What the CD index rests on", ("status", "papers", "share"), rows)
    shares = _shares(metrics, sorted({*_CUTS, thresholds.cut}))
    return [cd_section(metrics, thresholds, [text], [shares, statuses]), novelty_section(metrics, thresholds)]


def _shares(metrics: pl.DataFrame, cuts: list[float]) -> Table:
    """Say which labels each cut would give."""
    cd = metrics["cd"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    rows: list[tuple[str, ...]] = []
    for cut in cuts:
        codes = Thresholds(cut=cut).disruption_codes(cd, metrics["cd_status"])
        counts = label_counts(codes, [label.value for label in Disruption])
        total = sum(counts.values())
        rows.append((f"±{cut:g}", *(f"{share(n, total)}" for n in counts.values())))
    return plain("Labels by cut (inclusive)", ("cut", *(label.value for label in Disruption)), rows)


def _missing(corpus: Corpus) -> Section:
    missing = dict(sorted(corpus.card.missing.items()))
    if not any(missing.values()):
        none = Words("Nothing: every paper has every one of these.")
        return Section("missing", "What is missing", [none])
    text = "As the source has it; a paper without a title or an abstract never enters a slice."
    table = plain("Papers that lack it", ("column", "papers", "share"), counted_rows(missing, corpus.card.papers))
    return Section("missing", "What is missing", [Words(text), table])


def _dropped(corpus: Corpus) -> Section:
    card = corpus.card
    some = {name: count for name, count in sorted(card.dropped.items()) if count}
    none = [name.replace("_", " ") for name, count in sorted(card.dropped.items()) if not count]
    rows = [(name.replace("_", " "), quantity(count)) for name, count in some.items()]
    rows += [
        ("lines in quarantine.jsonl", quantity(card.quarantined)),
        ("kept: citations forward in time", quantity(card.forward_edges)),
    ]
    if card.later_papers:
        rows.append((f"kept: papers dated after {card.last_year}, the corpus's end", quantity(card.later_papers)))
    texts = ["Nothing disappears silently: what was dropped or set aside is counted here."]
    if none:
        texts.append(f"None dropped as: {', '.join(none)}.")
    table = plain("Dropped, set aside, noted", ("what", "count"), rows)
    return Section("dropped", "What was dropped", [*map(Words, texts), table])


def _provenance(corpus: Corpus) -> Section:
    card = corpus.card
    rows = [
        ("fingerprint (SHA-256)", card.fingerprint),
        ("source", card.source.kind.value),
        *flattened(card.source.settings, "source."),
        ("recommended cut", "none" if card.thresholds is None else f"±{card.thresholds:g}"),
        ("corpus format", str(card.format)),
    ]
    tables = [plain("Corpus", ("what", "value"), rows, words=True)]
    if (corpus.folder / METRICS).exists():
        metrics = flattened(msgspec.to_builtins(read_metrics_card(corpus)))
        tables.append(plain("Metrics", ("what", "value"), metrics, words=True))
    return Section("provenance", "Provenance", tables)
