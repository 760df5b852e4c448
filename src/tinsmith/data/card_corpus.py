"""The card of a corpus: what is in it, what was dropped, and what labels its numbers would give."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from tinsmith.data.card_page import Fact, Page, Section, Table, counted, flattened, number, share
from tinsmith.data.card_sections import cd_section, label_counts, novelty_section, years_section
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceKind
from tinsmith.data.labels import SEED_CUT, Disruption, Thresholds
from tinsmith.data.metrics_reader import read_metrics_card
from tinsmith.data.schema import METRICS, CdStatus

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


def corpus_page(corpus: Corpus) -> Page:
    """Return the card of `corpus`; the parts that need metrics are left out where there are none."""
    card = corpus.card
    years = sorted(card.years)
    with_text = card.papers - max(card.missing.get("title", 0), card.missing.get("abstract", 0))
    sections: list[Section] = []
    if years:
        span = np.arange(years[0], years[-1] + 1)
        counts = np.array([card.years.get(int(year), 0) for year in span])
        sections.append(years_section(span, {"papers": counts}))
    measured = (corpus.folder / METRICS).exists()
    sections += _measured(corpus) if measured else [_unmeasured()]
    return Page(
        kind="Corpus card",
        title=_TITLES[card.source.kind].format(f"{card.papers:,}"),
        lead="Papers and the citations between them, from one source, complete as far as the source is.",
        facts=[
            Fact("papers", number(card.papers)),
            Fact("citations", number(card.edges)),
            Fact("years", f"{years[0]}–{years[-1]}" if years else "–"),
            Fact("with an abstract", share(with_text, card.papers)),
            Fact("references per paper", f"{card.edges / max(card.papers, 1):.1f}"),
            Fact("metrics", "computed" if measured else "not yet"),
        ],
        sections=[*sections, _missing(corpus), _dropped(corpus), _provenance(corpus)],
        foot=f"Corpus {card.fingerprint}. The same corpus gives the same page, byte for byte.",
    )


def _unmeasured() -> Section:
    return Section(
        anchor="disruption",
        title="Disruption and novelty",
        notes=["The metrics are not computed yet. Run: tinsmith data metrics CORPUS"],
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
    statuses = Table(
        caption="What the CD index rests on",
        header=("status", "papers", "share"),
        rows=[
            (
                f"{status}: {meaning}",
                number(by_status.get(status.value, 0)),
                share(by_status.get(status.value, 0), metrics.height),
            )
            for status, meaning in _STATUSES.items()
        ],
    )
    shares = _shares(metrics, sorted({*_CUTS, thresholds.cut}))
    return [
        cd_section(metrics, thresholds, [text], [shares, statuses]),
        novelty_section(metrics, thresholds),
    ]


def _shares(metrics: pl.DataFrame, cuts: list[float]) -> Table:
    """Say which labels each cut would give."""
    cd = metrics["cd"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    rows: list[tuple[str, ...]] = []
    for cut in cuts:
        codes = Thresholds(cut=cut).disruption_codes(cd, metrics["cd_status"])
        counts = label_counts(codes, [label.value for label in Disruption])
        total = sum(counts.values())
        rows.append((f"±{cut:g}", *(f"{share(n, total)}" for n in counts.values())))
    return Table(
        caption="Labels by cut (inclusive)",
        header=("cut", *(label.value for label in Disruption)),
        rows=rows,
    )


def _missing(corpus: Corpus) -> Section:
    missing = dict(sorted(corpus.card.missing.items()))
    some = any(missing.values())
    text = "As the source has it; a paper without a title or an abstract never enters a slice."
    table = Table(
        caption="Papers that lack it",
        header=("column", "papers", "share"),
        rows=counted(missing, corpus.card.papers),
    )
    return Section(
        anchor="missing",
        title="What is missing",
        texts=[text if some else "Nothing: every paper has every one of these."],
        tables=[table] if some else [],
    )


def _dropped(corpus: Corpus) -> Section:
    card = corpus.card
    some = {name: count for name, count in sorted(card.dropped.items()) if count}
    none = [name.replace("_", " ") for name, count in sorted(card.dropped.items()) if not count]
    rows = [(name.replace("_", " "), number(count)) for name, count in some.items()]
    rows += [
        ("lines in quarantine.jsonl", number(card.quarantined)),
        ("kept: citations forward in time", number(card.forward_edges)),
    ]
    texts = ["Nothing disappears silently: what was dropped or set aside is counted here."]
    if none:
        texts.append(f"None dropped as: {', '.join(none)}.")
    table = Table(caption="Dropped, set aside, noted", header=("what", "count"), rows=rows)
    return Section(anchor="dropped", title="What was dropped", texts=texts, tables=[table])


def _provenance(corpus: Corpus) -> Section:
    card = corpus.card
    rows = [
        ("fingerprint (SHA-256)", card.fingerprint),
        ("source", card.source.kind.value),
        *flattened(card.source.settings, "source"),
        ("recommended cut", "none" if card.thresholds is None else f"±{card.thresholds:g}"),
        ("corpus format", str(card.format)),
    ]
    tables = [Table(caption="Corpus", header=("what", "value"), rows=rows, wide=True)]
    if (corpus.folder / METRICS).exists():
        metrics = flattened(msgspec.to_builtins(read_metrics_card(corpus)))
        tables.append(Table(caption="Metrics", header=("what", "value"), rows=metrics, wide=True))
    return Section(anchor="provenance", title="Provenance", tables=tables)
