"""The card of a slice: its rows and labels, what leaks them, the baselines, how it was chosen; and writing of cards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import polars as pl

from tinsmith.data.baselines.report import Baseline, BaselineReport, Figure, TargetReport, read_report
from tinsmith.data.corpus import Corpus
from tinsmith.data.schema import CARD
from tinsmith.data.slices.card import PAGE, SLICE
from tinsmith.data.slices.reader import Slice
from tinsmith.data.slices.rows import PaperRow
from tinsmith.data.slices.settings import Task
from tinsmith.data.slices.splits import Split
from tinsmith.pages.cards.corpus import cd_section, corpus_page, novelty_section, quantity, share, years_section
from tinsmith.pages.cards.distributions import baselines_figure
from tinsmith.pages.document import Callout, Document, Drawing, Section, Words
from tinsmith.pages.page import document_html, write
from tinsmith.pages.tables import Table, flattened, plain
from tinsmith.types.errors import DataError

_OPTIONAL: Mapping[str, Callable[[PaperRow], object]] = {
    "publication_year": lambda row: row.publication_year,
    "cited_by_count": lambda row: row.cited_by_count,
    "cd_index": lambda row: row.cd_index,
    "novelty_score": lambda row: row.novelty_score,
    "disruption_label": lambda row: row.disruption_label,
    "novelty_label": lambda row: row.novelty_label,
    "primary_field": lambda row: row.primary_field,
    "concepts": lambda row: row.concepts or None,
}


@dataclass(slots=True)
class _Tally:
    """Counts of one pass over the rows: what is missing, by field and split, and values by class."""

    missing: Counter[tuple[str, Split]] = field(default_factory=Counter[tuple[str, Split]])
    years: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    citations: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lengths: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, source: Slice) -> _Tally:
        """Go through the rows of all splits."""
        tally, task = cls(), source.card.settings.task
        for split in Split:
            for row in source.rows(split):
                label = task.class_of(row.disruption_label, row.novelty_label)
                tally.missing.update((name, split) for name, read in _OPTIONAL.items() if read(row) is None)
                tally.years[label] += [] if row.publication_year is None else [row.publication_year]
                tally.citations[label] += [] if row.cited_by_count is None else [row.cited_by_count]
                tally.lengths[label].append(len(row.abstract))
        return tally


def slice_page(source: Slice) -> Document:
    """Return the card of `source`."""
    card = source.card
    settings = card.settings
    tally = _Tally.of(source)
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
        question=f"Frozen rows cut from a {card.corpus.source} corpus of {card.corpus.papers:,} papers, labelled on "
        "its whole citation graph.",
        facts=[
            *((split.value, quantity(one.rows)) for split, one in card.splits.items()),
            ("cut", f"±{settings.thresholds.cut:g}"),
            ("labels", settings.thresholds.mode.value),
            ("seed", str(settings.seed)),
        ],
        sections=[
            _rows(source),
            *_baselines(source),
            _leaks(source, tally),
            cd_section(metrics, settings.thresholds, rules[:1], []),
            novelty_section(metrics, settings.thresholds, rules[1:]),
            *_years(metrics, source),
            _missing(source, tally),
            _choice(source),
            _provenance(source),
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
        + ("The oracle knows the cause of each paper and nothing else." if oracle else "")
    )
    left = [f"{name} ({why})" for name, why in target.left_out.items()]
    told = [Words(text), *([Words(f"Left out: {'; '.join(left)}.")] if left else [])]
    caption = "Macro-F1 on the test split with its interval. Dashed: what guessing among equal classes gives."
    title = f"Baselines: {target.target}" if several else "Baselines"
    return Section(f"baselines-{target.target}", title, [*told, Drawing(baselines_figure(target), caption), table])


def _leaks(source: Slice, tally: _Tally) -> Section:
    def middle(values: list[int]) -> str:
        return quantity(float(np.median(values))) if values else "–"

    def uncited(values: list[int]) -> str:
        return share(sum(value == 0 for value in values), len(values)) if values else "–"

    settings = source.card.settings
    rows: list[tuple[str, ...]] = []
    for label in settings.task.classes:
        cited, years = tally.citations[label], tally.years[label]
        year = f"{np.median(years):.0f}" if years else "–"
        rows.append((label, middle(cited), uncited(cited), year, middle(tally.lengths[label])))
    kept = {"citations": settings.citations, "the year": settings.year}
    left_out = [name for name, there in kept.items() if not there]
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


def _missing(source: Slice, tally: _Tally) -> Section:
    splits = source.card.splits
    rows = [(name, *(share(tally.missing[name, split], splits[split].rows) for split in Split)) for name in _OPTIONAL]
    header = ("field", *(split.value for split in Split))
    table = plain("Rows where a field is null or empty", header, rows)
    where = {"source": "as the source published them", "corpus": "counted in the corpus"}
    text = f"Title and abstract are never missing. Citations are {where[source.card.citations_from]}."
    return Section("missing", "What is missing", [Words(text), table])


def _choice(source: Slice) -> Section:
    card = source.card
    left = card.corpus.papers
    rows = [("papers in the corpus", "", quantity(left))]
    for name, count in card.removed.items():
        left -= count
        rows.append((name, quantity(count), quantity(left)))
    funnel = plain("Filters, in order", ("filter", "removed", "left"), rows)
    pool = plain("To choose from", ("class", "papers"), [(name, quantity(count)) for name, count in card.pool.items()])
    text = (
        "A paper's split follows from the hash of its id, and of each class the lowest hashes are taken: papers "
        "added to the corpus later move none from one split to another."
    )
    if card.settings.scheme != "native":
        text = "The splits are the seeds' own: ids sorted, shuffled with the seed, cut by 0.8/0.1/0.1."
    return Section("choice", "How it was chosen", [Words(text), funnel, pool])


def _provenance(source: Slice) -> Section:
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
