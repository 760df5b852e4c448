"""The card of a corpus: what is in it, what was dropped, and what labels its numbers would give."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceKind
from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.labels import SEED_CUT, Disruption, Thresholds
from tinsmith.data.metrics_reader import read_metrics_card
from tinsmith.data.schema import METRICS
from tinsmith.pages.cards.sections import (
    cd_section,
    counted_rows,
    label_counts,
    novelty_section,
    quantity,
    share,
    years_section,
)
from tinsmith.pages.document import Callout, Document, Section, Words
from tinsmith.pages.tables import Table, flattened, plain

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
    sections += _measured(corpus) if measured else [_unmeasured()]
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


def _unmeasured() -> Section:
    words = "The metrics are not computed yet. Run: tinsmith data metrics CORPUS"
    return Section("disruption", "Disruption and novelty", [Callout(words, [])])


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
    statuses = plain(
        "What the CD index rests on",
        ("status", "papers", "share"),
        [
            (
                f"{status}: {meaning}",
                quantity(by_status.get(status.value, 0)),
                share(by_status.get(status.value, 0), metrics.height),
            )
            for status, meaning in _STATUSES.items()
        ],
    )
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
