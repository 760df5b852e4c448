"""Cards of a corpus and of a slice: counts, figures, missing data, label leaks, baselines, provenance.

The card of a corpus shows what is in it, what was dropped, and what labels its numbers would give; that of a slice its
rows and labels, what gives the labels away, the baselines, and how it was chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.baselines.report import Baseline, BaselineReport, Figure, TargetReport, read_report
from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceKind
from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.label_table import own_works_note, papers_per_year
from tinsmith.data.labels import SEED_CUT, UNDEFINED, Disruption, Novelty, Thresholds
from tinsmith.data.metrics_reader import read_metrics_card
from tinsmith.data.schema import CARD, METRICS
from tinsmith.data.slices.card import PAGE, SLICE
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.settings import Task
from tinsmith.data.slices.splits import Split
from tinsmith.pages.card_figures import baselines_figure, cd_figure, novelty_figure, years_figure
from tinsmith.pages.document import Block, Callout, Document, Drawing, Section, Words
from tinsmith.pages.page import document_html, write
from tinsmith.pages.tables import Table, flattened, plain
from tinsmith.types.errors import DataError

ABOUT_CD = (
    "The CD index of a paper is (nᵢ − nⱼ) / (nᵢ + nⱼ + nₖ): of the later papers in its window, nᵢ cite it "
    "but none of its references, nⱼ cite both, nₖ cite only its references (Funk and Owen-Smith 2017)."
)
ON_GRAPH = " It counts citations within the corpus and is computed on the whole graph, never on a sample."
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


def cd_section(
    metrics: pl.DataFrame, thresholds: Thresholds, texts: Sequence[str], tables: list[Table], of: Slice | None = None
) -> Section:
    """Show the CD indices in `metrics` (cd, cd_status) that have a label under `thresholds`, or a file's own labels."""
    cd = metrics["cd"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    codes = thresholds.disruption_codes(cd, metrics["cd_status"])
    labelled, cut, graph = codes != UNDEFINED, f"Dashed lines: the cut at ±{thresholds.cut:g}. ", ON_GRAPH
    counts = label_counts(codes, [label.value for label in Disruption])
    if of is not None and of.card.file is not msgspec.UNSET:
        labelled, graph = ~np.isnan(cd), ""
        counts = {name: sum(one.disruption[name] for one in of.card.splits.values()) for name in counts}
        cut = cut if Task.DISRUPTION in of.card.file.contradicted else ""
    drawings: list[Block] = []
    if labelled.any():
        caption = (
            f"{int(labelled.sum()):,} CD indices on a signed logarithmic axis, papers on a logarithmic one. "
            f"{cut}Zero has a bin of its own: a paper that nobody "
            "cites in its window, but whose references are cited, has exactly 0."
        )
        drawings.append(Drawing(cd_figure(cd[labelled], thresholds.cut if cut else None, counts), caption))
    return Section("disruption", "Disruption", [*map(Words, (ABOUT_CD + graph, *texts)), *drawings, *tables])


def novelty_section(metrics: pl.DataFrame, thresholds: Thresholds, texts: Sequence[str] = ()) -> Section:
    """Show novelty against conventionality for the papers in `metrics` that have both."""
    columns = ("novelty_score", "conventionality_score")
    novelty, conventionality = (metrics[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in columns)
    codes = thresholds.novelty_codes(novelty, conventionality)
    counts = label_counts(codes, [label.value for label in Novelty])
    known = metrics.select("z_median", "z_p10").drop_nulls()
    total = sum(counts.values())
    if not known.height:
        note = "No paper has a novelty score that was computed here: that takes two references whose journal is known."
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
    card, own, years = corpus.card, corpus.own_works(), sorted(corpus.card.years)
    sections: list[Section] = []
    if years:
        span = np.arange(years[0], card.last_year + 1)
        counted = papers_per_year(corpus)
        counts = np.array([counted.get(int(year), 0) for year in span])
        sections.append(years_section(span, {"papers": counts}))
    measured = (corpus.folder / METRICS).exists()
    todo = Callout("The metrics are not computed yet. Run: tinsmith data metrics CORPUS", [])
    sections += _measured(corpus) if measured else [Section("disruption", "Disruption and novelty", [todo])]
    return Document(
        kind="Corpus card",
        title=_TITLES[card.source.kind].format(f"{card.papers:,}"),
        question="Papers and the citations between them, from one source, complete as far as the source is."
        if own is None
        else f"Labels are of {own_works_note(corpus)}.",
        facts=[
            ("papers", quantity(card.papers)),
            ("citations", quantity(card.edges)),
            ("years", f"{years[0]}–{years[-1]}" if years else "–"),
            ("with an abstract", share(card.papers - card.missing.get("abstract", 0), card.papers)),
            ("references per paper", f"{card.edges / max(card.papers, 1):.1f}"),
            ("metrics", "computed" if measured else "not yet"),
        ],
        sections=[*sections, _corpus_missing(corpus), _dropped(corpus), _corpus_provenance(corpus)],
        foot=f"from corpus {card.fingerprint}; the same corpus gives the same page, byte for byte.",
    )


def _measured(corpus: Corpus) -> list[Section]:
    columns = ("cd", "cd_status", "z_median", "z_p10", "novelty_score", "conventionality_score")
    metrics = corpus.metrics(*columns).drop_nulls("cd_status")  # of one's own works, where it was built for some
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
    sections = [cd_section(metrics, thresholds, [text], [shares, statuses]), novelty_section(metrics, thresholds)]
    return sections if corpus.own_works() is None else sections[:1]


def _shares(metrics: pl.DataFrame, cuts: list[float]) -> Table:
    """Return the label counts under each cut."""
    cd = metrics["cd"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    rows: list[tuple[str, ...]] = []
    for cut in cuts:
        codes = Thresholds(cut=cut).disruption_codes(cd, metrics["cd_status"])
        counts = label_counts(codes, [label.value for label in Disruption])
        total = sum(counts.values())
        rows.append((f"±{cut:g}", *(f"{share(n, total)}" for n in counts.values())))
    return plain("Labels by cut (inclusive)", ("cut", *(label.value for label in Disruption)), rows)


def _corpus_missing(corpus: Corpus) -> Section:
    missing = dict(sorted(corpus.card.missing.items()))
    if not any(missing.values()):
        return Section("missing", "What is missing", [Words("Nothing: every paper has every one of these.")])
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


def _corpus_provenance(corpus: Corpus) -> Section:
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
        of_own = ("settings", "corpus", "fingerprint", "format")  # the other values count all papers
        metrics = [row for row in metrics if corpus.own_works() is None or row[0].startswith(of_own)]
        tables.append(plain("Metrics", ("what", "value"), metrics, words=True))
    return Section("provenance", "Provenance", tables)


_OPTIONAL = (
    *("publication_year", "cited_by_count", "cd_index", "novelty_score"),
    *("disruption_label", "novelty_label", "primary_field", "concepts"),
)
"""Fields of a row that may be null or empty."""


def _facts(source: Slice) -> pl.DataFrame:
    """Return one line per row of all splits: its class, fields that may leak it, and missing fields."""
    task = source.card.settings.task
    rows = [
        (
            *(split.value, task.class_of(row.disruption_label, row.novelty_label)),
            *(row.publication_year, row.cited_by_count, len(row.abstract)),
            *(getattr(row, name) in (None, ()) for name in _OPTIONAL),
        )
        for split in Split
        for row in source.rows(split)
    ]
    kinds = {"split": pl.String, "class": pl.String, "year": pl.Int64, "citations": pl.Int64, "length": pl.Int64}
    return pl.DataFrame(rows, {**kinds, **dict.fromkeys(_OPTIONAL, pl.Boolean)}, orient="row")


def slice_page(source: Slice) -> Document:
    """Return the card of `source`."""
    card = source.card
    settings = card.settings
    facts = _facts(source)
    metrics = source.metrics(
        *("cd", "cd_status", "z_median", "z_p10", "novelty_score", "conventionality_score", "year")
    )
    size = "Natural" if settings.per_class is None else "Balanced"
    rules = [
        f"Here: {rule.replace('>=', '≥').replace('<=', '≤').replace(' -', ' −')}."
        for rule in (card.disruption_rule, card.novelty_rule)
    ]
    return Document(
        kind="Slice card",
        title=f"{size} {settings.task} slice of {card.rows:,} papers",
        question=card.origin,
        facts=[
            *((split.value, quantity(one.rows)) for split, one in card.splits.items()),
            ("cut", card.cut),
            ("labels", settings.thresholds.mode.value),
            ("seed", str(settings.seed)),
        ],
        sections=[
            _rows(source),
            *_baselines(source),
            _leaks(source, facts),
            cd_section(metrics, settings.thresholds, rules[:1], [], source),
            novelty_section(metrics, settings.thresholds, rules[1:]),
            *_years(metrics, source),
            _slice_missing(source, facts),
            _choice(source),
            _slice_provenance(source),
        ],
        foot=f"from slice {card.sha256}; the same slice gives the same page, byte for byte.",
    )


def _rows(source: Slice) -> Section:
    card = source.card
    tables: list[Table] = []
    for name in ("disruption", "novelty"):
        counts = {
            split.value: one.disruption if name == "disruption" else one.novelty for split, one in card.splits.items()
        }
        labels = list(dict.fromkeys(label for one in counts.values() for label in one))
        rows = [
            (split, *(quantity(one.get(label, 0)) for label in labels), quantity(sum(one.values())))
            for split, one in counts.items()
        ]
        tables.append(plain(f"Rows by {name} label", ("split", *labels, "rows"), rows))
    notes: list[str] = []
    if card.oversampled:
        repeats = ", ".join(f"{count:,} {name}" for name, count in card.oversampled.items())
        notes.append(f"Training rows that repeat another: {repeats}.")
    return Section("rows", "Rows and labels", [*(Callout(note, []) for note in notes), *tables])


def _baselines(source: Slice) -> Iterator[Section]:
    report = read_report(source.folder)
    if report is None or report.slice_sha256 != source.card.sha256:
        note = "The baselines of this slice are not computed yet. Run: tinsmith data baselines SLICE"
        yield Section("baselines", "Baselines", [Callout(note, [])])
        return
    for target in report.targets:
        yield _target(target, report, len(report.targets) > 1)


def _target(target: TargetReport, report: BaselineReport, several: bool) -> Section:
    def figure(value: Figure) -> str:
        return f"{value.value:.3f}  [{value.low:.3f}, {value.high:.3f}]"

    table = plain(
        f"Scores on {target.scores[0].n:,} test rows with {report.confidence:.0%} intervals; last, "
        "the recall of each class",
        (*("baseline", "accuracy", "macro-F1", "min recall"), *target.classes),
        [
            (
                score.baseline.value,
                *(figure(f) for f in (score.accuracy, score.macro_f1, score.min_class_recall)),
                *(f"{score.recall[name].value:.3f}" if name in score.recall else "–" for name in target.classes),
            )
            for score in target.scores
        ],
    )
    oracle = any(score.baseline is Baseline.ORACLE for score in target.scores)
    text = (
        f"What a model must beat before its score means something. Trained on {report.train_rows:,} of "
        f"{report.train_rows_available:,} training rows; intervals are percentiles of {report.resamples:,} "
        "resamples of the test rows. The prior's figures are expectations. "
        + ("The oracle knows each paper's cause and nothing else; text may tell more." if oracle else "")
    )
    left = [f"{name} ({why})" for name, why in target.left_out.items()]
    words = [Words(text), *([Words(f"Left out: {'; '.join(left)}.")] if left else [])]
    caption = "Macro-F1 on the test split with its interval. Dashed: what guessing among equal classes gives."
    title = f"Baselines: {target.target}" if several else "Baselines"
    return Section(f"baselines-{target.target}", title, [*words, Drawing(baselines_figure(target), caption), table])


def _leaks(source: Slice, facts: pl.DataFrame) -> Section:
    def middle(values: pl.Series) -> float | None:
        return float(np.median(values.drop_nulls().to_numpy())) if values.count() else None

    settings = source.card.settings
    rows: list[tuple[str, ...]] = []
    for label in settings.task.classes:
        mine = facts.filter(pl.col("class") == label)
        cited, year = mine["citations"], middle(mine["year"])
        uncited = share(int((cited == 0).sum()), cited.count())
        shown = "\u2013" if year is None else f"{year:.0f}"
        rows.append((label, quantity(middle(cited)), uncited, shown, quantity(middle(mine["length"]))))
    included = {"citations": settings.citations, "the year": settings.year}
    left_out = [name for name, there in included.items() if not there]
    texts = ["Differences between the classes that a model can use without reading a word."]
    if settings.task is not Task.NOVELTY:
        texts[0] += " A paper that few cite is neutral more often, and a young one has had less time."
    if left_out:
        texts.append(f"Left out of the rows: {' and '.join(left_out)}.")
    heads = ("class", "median citations", "uncited", "median year", "median abstract, characters")
    return Section("leaks", "What gives the label away", [*map(Words, texts), plain("By class", heads, rows)])


def _years(metrics: pl.DataFrame, source: Slice) -> Iterator[Section]:
    novelty = source.card.settings.task is Task.NOVELTY
    column = "novelty_label" if novelty else "disruption_label"
    table = metrics.select("year").hstack(source.metrics(column)).drop_nulls()
    if not table.height:
        return
    years = np.arange(int(table["year"].min()), int(table["year"].max()) + 1)  # pyright: ignore[reportArgumentType]
    # Nine pairs of labels would be nine lines; those of a joint slice are drawn by disruption.
    labels = (Task.NOVELTY if novelty else Task.DISRUPTION).classes
    series = {
        label: np.bincount(table.filter(pl.col(column) == label)["year"].to_numpy() - years[0], minlength=len(years))
        for label in labels
    }
    yield years_section(years, series)


def _slice_missing(source: Slice, facts: pl.DataFrame) -> Section:
    lacking = {split: facts.filter(pl.col("split") == split.value) for split in Split}
    rows = [(name, *(share(int(one[name].sum()), one.height) for one in lacking.values())) for name in _OPTIONAL]
    header = ("field", *(split.value for split in Split))
    table = plain("Rows where a field is null or empty", header, rows)
    where = {"source": "as the source published them", "corpus": "counted in the corpus"}
    text = f"Title and abstract are never missing. Citations are {where[source.card.citations_from]}."
    return Section("missing", "What is missing", [Words(text), table])


def _choice(source: Slice) -> Section:
    card = source.card
    left = card.corpus.papers
    rows = [("papers in the corpus" if card.file is msgspec.UNSET else "records of the file", "", quantity(left))]
    for name, count in card.removed.items():
        left -= count
        rows.append((name, quantity(count), quantity(left)))
    funnel = plain("Filters, in order", ("filter", "removed", "left"), rows)
    pool = plain("To choose from", ("class", "papers"), [(name, quantity(count)) for name, count in card.pool.items()])
    notes = [Callout(f"{sentence}.", []) for sentence in card.notes]
    return Section("choice", "How it was chosen", [Words(card.choice), *notes, funnel, pool])


def _slice_provenance(source: Slice) -> Section:
    card = source.card
    hashes = [(SLICE, card.sha256)]
    for split, one in card.splits.items():
        hashes += [(f"{split}: ids", one.ids_sha256), (f"{split}: rows", one.rows_sha256)]
    if card.legacy_sha256 is not None:
        hashes.append(("splits, hashed as in the source notes", card.legacy_sha256))
    tables = [
        plain("Corpus", ("what", "value"), flattened(msgspec.to_builtins(card.corpus)), words=True),
        plain("Settings", ("what", "value"), flattened(msgspec.to_builtins(card.settings)), words=True),
        plain("SHA-256", ("of", "value"), hashes, words=True),
    ]
    return Section("provenance", "Provenance", tables)


def write_page(folder: Path) -> Path:
    """Write `card.html` into a corpus or slice folder and return its path."""
    if (folder / SLICE).exists():
        page = slice_page(Slice.open(folder))
    elif (folder / CARD).exists():
        page = corpus_page(Corpus.open(folder))
    else:
        what, allowed = f"{folder} is neither a corpus nor a slice", f"a folder that holds {CARD} or {SLICE}"
        raise DataError(what, allowed=allowed, fix="make one with: tinsmith data build ..., or tinsmith data slice ...")
    write(document_html(page), folder / PAGE)
    return folder / PAGE
