"""The `tinsmith data` verbs and their options: from raw sources to a frozen slice.

Each command imports what it runs when it is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from tinsmith.data.baselines.report import BaselineReport, Figure, TargetReport
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.metrics_card import MetricsCard
    from tinsmith.data.slices.card import SliceCard

SourceName = Annotated[
    Literal["openalex", "sciscinet", "files", "synthetic"], typer.Option("--source", help="Source of the papers.")
]
Out = Annotated[Path, typer.Option(metavar="CORPUS", help="The corpus's folder.")]
Snapshot = Annotated[Path | None, typer.Option(metavar="DIR", help="openalex: a copy of the snapshot, any layout.")]
Pages = Annotated[
    list[Path] | None, typer.Option(metavar="FILE ...", help="openalex: saved pages of the API, or works.")
]
MorePages = Annotated[list[Path] | None, typer.Argument(metavar="[FILE ...]", hidden=True)]
Api = Annotated[bool | None, typer.Option("--api", help="openalex: the live API; a stop is resumed.")]
Works = Annotated[
    str | None, typer.Option(metavar="WHOSE", help="openalex: an ORCID, ROR, DOI or id, or a file of them.")
]
MostUsd = Annotated[float | None, typer.Option(metavar="USD", help="--works: what requests may cost. Default: 1.")]
Filter = Annotated[str | None, typer.Option("--filter", help="--api: which works, in OpenAlex's filter syntax.")]
ApiUrl = Annotated[str | None, typer.Option(metavar="URL", help="--api, --works: another server.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="The variable that holds the API's key. Default: OPENALEX_API_KEY.")
]
Keep = Annotated[str | None, typer.Option(metavar="LIST", help="openalex, sciscinet: of retracted,paratext,xpac.")]
GraphOnly = Annotated[bool | None, typer.Option("--graph-only", help="openalex: no texts; several times as fast.")]
Tables = Annotated[Path | None, typer.Option(metavar="DIR", help="sciscinet: the tables, TSV or parquet.")]
Papers = Annotated[Path | None, typer.Option(metavar="FILE", help="files: papers as JSON lines or an array.")]
Edges = Annotated[
    Path | None, typer.Option(metavar="FILE", help="files: citing and cited id on each line, TSV or CSV.")
]
PresetName = Annotated[
    Literal["tiny", "small", "full"] | None, typer.Option("--preset", help="synthetic: the world's size.")
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="synthetic: seed of the world.")]
DropForward = Annotated[bool, typer.Option("--drop-forward", help="Leave out references to later papers.")]
Strict = Annotated[bool | None, typer.Option("--strict", help="Stop at the first malformed line.")]
SkipBad = Annotated[bool | None, typer.Option("--skip-bad", help="Use what can be read, however many lines are lost.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the corpus in CORPUS.")]


Number = int | None


def _flag(name: str, text: str) -> object:
    return typer.Option(name, help=text)


CorpusFolder = Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus with metrics.")]
SliceFolder = Annotated[Path, typer.Option(metavar="DIR", help="The slice's folder.")]
TaskName = Annotated[
    Literal["disruption", "novelty", "joint"],
    typer.Option(help="Label to predict; joint: both, balanced over the nine pairs of labels."),
]
Cut = Annotated[
    float | None, typer.Option(help="The |CD| from which a paper is labelled. Default: a synthetic corpus's own.")
]
Mode = Annotated[
    Literal["inclusive", "strict", "legacy"], typer.Option(help="At the cut: >=; >; or rounded to 4 decimals, then >.")
]
Margin = Annotated[float | None, typer.Option(help="Between the two scores, for novelty. Default: 0.15.")]
PerClass = Annotated[Number, typer.Option(metavar="N", help="N of each class, over all splits.")]
Natural = Annotated[bool, _flag("--natural", "Keep the mixture of classes as it is, instead of --per-class.")]
Cap = Annotated[Number, typer.Option(metavar="N", help="At most N rows. Default: all.")]
SliceSeed = Annotated[int, typer.Option(help="Seed of the choice of papers and of the splits.")]
Splits = Annotated[Literal["native", "legacy"], typer.Option(help="By the id's hash; or by one seeded shuffle.")]
Oversample = Annotated[bool, _flag("--oversample", "Repeat training papers of a class that is short.")]
Status = Annotated[Literal["ok"] | None, typer.Option(help="Only papers with references and citers.")]
KeepNoRefs = Annotated[bool, _flag("--keep-no-refs", "Label papers without a reference, too.")]
FullWindow = Annotated[bool, _flag("--full-window", "Only papers whose whole window is in the corpus.")]
MinReferences = Annotated[int, typer.Option(metavar="K", help="Fewest references in the corpus.")]
MinCiters = Annotated[int, typer.Option(metavar="K", help="Fewest citers in the corpus.")]
Before = Annotated[str | None, typer.Option(metavar="DATE", help="Published before YYYY[-MM[-DD]].")]
After = Annotated[str | None, typer.Option(metavar="DATE", help="Published on or after YYYY[-MM[-DD]].")]
LeaveOut = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Without the papers whose ids are in it, one a line.")
]
NoCitations = Annotated[bool, _flag("--no-citations", "Leave out citation counts, which leak the label.")]
NoYear = Annotated[bool, _flag("--no-year", "Leave out the year, which leaks the label.")]
ReplaceSlice = Annotated[bool, _flag("--force", "Replace another slice that is in OUT.")]


app = typer.Typer(
    name="data",
    help="From raw citation data to a frozen slice: fetch, build, metrics, slice, baselines, card.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(short_help="Fetch a published corpus.")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="hepth: arXiv's hep-th, 1992 to 2003, of SNAP.")],
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Its folder. Default: ./NAME.")] = None,
) -> None:
    """Fetch a published corpus: papers.jsonl.gz and edges.tsv.gz for `build --source files`."""
    from tinsmith.cli.bar import download_bar, progress_bar
    from tinsmith.data.sources.hepth.fetching import EDGES, PAPERS, fetch_corpus
    from tinsmith.data.sources.hepth.release import release_named

    release = release_named(name)
    folder = Path(release.name) if out is None else out
    outcome = fetch_corpus(release, folder, download_bar, progress_bar)
    receipt = outcome.receipt
    print(f"{'wrote' if outcome.fresh else 'already here:'} {folder}")
    print(f"  papers {receipt.papers:,}, edges {receipt.edges:,}: the graph is the known one")
    if not outcome.as_known:
        print(
            f"  some texts or dates are not those of the published figures: sha256 "
            f"{receipt.papers_sha256[:16]}, known {release.papers_sha256[:16]}"
        )
    papers, edges = folder / PAPERS, folder / EDGES
    print(f"next: tinsmith data build --source files --papers {papers} --edges {edges} --out DIR")


@app.command(short_help="Build a corpus of papers and citations.")
def build(
    source: SourceName,
    out: Out,
    snapshot: Snapshot = None,
    pages: Pages = None,
    more_pages: MorePages = None,
    api: Api = None,
    works: Works = None,
    most_usd: MostUsd = None,
    filter: Filter = None,
    api_url: ApiUrl = None,
    api_key_env: ApiKeyEnv = None,
    keep: Keep = None,
    graph_only: GraphOnly = None,
    tables: Tables = None,
    papers: Papers = None,
    edges: Edges = None,
    preset: PresetName = None,
    seed: Seed = None,
    drop_forward: DropForward = False,
    strict: Strict = None,
    skip_bad: SkipBad = None,
    force: Force = False,
) -> None:
    """Make a corpus; with --works, one's own papers and their labels."""
    named = dict(locals())  # the options by their names
    from tinsmith.cli.bar import progress_bar
    from tinsmith.cli.data.build_source import BuildOptions, chosen_source
    from tinsmith.data.corpus_card import SourceKind, summary
    from tinsmith.data.corpus_writer import check_vacant
    from tinsmith.data.sources.source import build_corpus

    named["pages"] = tuple((pages or []) + (more_pages or [])) or None
    options = BuildOptions(**{each.name: named[each.name] for each in fields(BuildOptions)})
    chosen = chosen_source(SourceKind(source), options, out)
    check_vacant(out, force=force)
    with progress_bar() as progress:
        card = build_corpus(chosen, out, drop_forward=drop_forward, strict=bool(strict), force=force, progress=progress)
    print(f"wrote {out}")
    for name, value in summary(card).items():
        print(f"  {name:<28}{value:>14}")
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.own_labels import graph_warning, write_own_labels

    corpus = Corpus.open(out)
    if works is None:
        if warning := graph_warning(corpus):
            print(warning)
        return
    with progress_bar() as progress:
        own = write_own_labels(corpus, progress)
    print(f"wrote {own.file}: {own.found:,} own works")
    for name, count in own.labels.items():
        print(f"  {name:<28}{count:>14,}")


@app.command(short_help="Compute CD indices and atypicality of all papers.")
def metrics(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus's folder.")],
    window: Annotated[int, typer.Option(metavar="YEARS", help="Years in which citers count.")] = 5,
    granularity: Annotated[
        Literal["year", "day"], typer.Option(help="Citers of later years count; or of later days: papers need dates.")
    ] = "year",
    window_days: Annotated[
        int | None, typer.Option(metavar="N", help="With days. Default: 1826 for five years.")
    ] = None,
    null: Annotated[
        Literal["closed", "switching"],
        typer.Option(help="Chance, for journal pairs: its exact mean; or drawn networks."),
    ] = "closed",
    nulls: Annotated[int, typer.Option(metavar="N", help="Networks to draw.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the drawn networks.")] = 0,
    pool_years: Annotated[
        int, typer.Option(metavar="K", help="Compare the pairs of K citing years: small corpora, 3-5.")
    ] = 1,
    threads: Annotated[
        int | None, typer.Option(metavar="N", help="Threads. Default: one per core. Changes no bit.")
    ] = None,
) -> None:
    """Compute CD indices and atypicality of every paper, on the full graph."""
    import time

    from tinsmith.cli.bar import progress_bar
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.indices.atypicality import Null, NullModel
    from tinsmith.data.metrics import compute_metrics
    from tinsmith.data.metrics_card import Granularity, MetricSettings
    from tinsmith.ops.extension import configure

    settings = MetricSettings(
        window=window,
        granularity=Granularity(granularity),
        window_days=window_days,
        null=Null(model=NullModel(null), nulls=nulls, seed=seed),
        pool_years=pool_years,
    )
    opened = Corpus.open(corpus)
    configure(threads=threads)
    start = time.perf_counter()
    with progress_bar() as progress:
        computed = compute_metrics(opened, settings, progress)
    seconds = time.perf_counter() - start
    print(f"wrote the metrics of {corpus}")
    for name, value in _metrics_summary(opened, computed, seconds).items():
        print(f"  {name:<28}{value:>14}")


def _metrics_summary(corpus: Corpus, card: MetricsCard, seconds: float) -> Mapping[str, str]:
    """Return name -> text in the order to show it; labels at the corpus's own cut, or else at the source notes'."""
    import numpy as np

    from tinsmith.data.labels import SEED_CUT, UNDEFINED, Disruption, Thresholds

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


@app.command("slice", short_help="Cut a frozen, labelled slice.")
def cut_slice(
    corpus: CorpusFolder,
    out: SliceFolder,
    task: TaskName = "disruption",
    cut: Cut = None,
    mode: Mode = "inclusive",
    margin: Margin = None,
    per_class: PerClass = None,
    natural: Natural = False,
    train: Cap = None,
    validation: Cap = None,
    test: Cap = None,
    seed: SliceSeed = 0,
    splits: Splits = "native",
    oversample: Oversample = False,
    status: Status = None,
    keep_no_refs: KeepNoRefs = False,
    full_window: FullWindow = False,
    min_references: MinReferences = 0,
    min_citers: MinCiters = 0,
    before: Before = None,
    after: After = None,
    leave_out: LeaveOut = None,
    no_citations: NoCitations = False,
    no_year: NoYear = False,
    force: ReplaceSlice = False,
) -> None:
    """Cut a frozen slice: labelled, chosen and split by the hash of each paper's id."""
    from tinsmith.cli.bar import progress_bar
    from tinsmith.cli.columns import open_console
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.indices.cd_status import CdStatus
    from tinsmith.data.labels import NOVELTY_MARGIN, LabelMode, Thresholds
    from tinsmith.data.slices.cutting import make_slice
    from tinsmith.data.slices.leave_out import read_left_out
    from tinsmith.data.slices.settings import Caps, SliceSettings, Task, parse_day
    from tinsmith.data.slices.splits import SplitScheme
    from tinsmith.types.errors import ConfigError

    if natural == (per_class is not None):
        what = "a slice is either balanced (--per-class) or natural (--natural)"
        raise ConfigError(what, field="--per-class, --natural", allowed="exactly one of the two")
    source = Corpus.open(corpus)
    if cut is None and source.card.thresholds is None:
        what = "this corpus has no cut of its own, so name one"
        raise ConfigError(what, field="--cut", fix="--cut 0.001 for a corpus of millions, about 0.01 for 30,000 papers")
    settings = SliceSettings(
        task=Task(task),
        thresholds=Thresholds(
            cut=source.card.thresholds or 0.0 if cut is None else cut,
            mode=LabelMode(mode),
            margin=NOVELTY_MARGIN if margin is None else margin,
            keep_no_refs=keep_no_refs,
        ),
        per_class=per_class,
        caps=Caps(train=train, validation=validation, test=test),
        seed=seed,
        scheme=SplitScheme(splits),
        oversample=oversample,
        status=None if status is None else CdStatus(status),
        full_window=full_window,
        min_references=min_references,
        min_citers=min_citers,
        before=None if before is None else parse_day(before, "--before"),
        after=None if after is None else parse_day(after, "--after"),
        citations=not no_citations,
        year=not no_year,
    )
    with progress_bar() as progress:
        left_out = None if leave_out is None else read_left_out(leave_out)
        card = make_slice(source, settings, out, progress, force=force, left_out=left_out)
    console = open_console()
    console.print("\n".join(_slice_lines(card)), markup=False, soft_wrap=True)
    console.print(_slice_table(card))
    console.print(f"wrote {out} (sha256 {card.sha256})", markup=False, soft_wrap=True)


def _slice_lines(card: SliceCard) -> list[str]:
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


def _slice_table(card: SliceCard) -> Table:
    """Return the rows of each split by label; by both labels of a joint slice."""
    from rich.table import Table

    from tinsmith.data.slices.settings import Task

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


@app.command(short_help="Score the baselines that any model must beat.")
def baselines(
    folder: Annotated[Path, typer.Argument(metavar="SLICE", help="A slice's folder.")],
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    train_rows: Annotated[
        int | None, typer.Option(metavar="N", help="Train on the first N rows. Default: 50,000.")
    ] = None,
) -> None:
    """Score what any model must beat: majority, prior, metadata, TF-IDF, both, and a world's oracle."""
    from tinsmith.cli.named_folders import require_slice

    require_slice(folder)  # before what is heavy is imported
    from tinsmith.cli.bar import progress_bar
    from tinsmith.cli.columns import open_console
    from tinsmith.data.baselines.fitting import TRAIN_ROWS, run_baselines
    from tinsmith.data.slices.reader import Slice

    rows = TRAIN_ROWS if train_rows is None else train_rows
    with progress_bar() as progress:
        opened = Slice.open(folder)
        report = run_baselines(opened, seed=seed, train_rows=rows, progress=progress)
    console = open_console()
    for target in report.targets:
        console.print("\n".join(_baseline_lines(report, target)), markup=False, soft_wrap=True)
        console.print(_baseline_table(target))


def _baseline_lines(report: BaselineReport, target: TargetReport) -> list[str]:
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


def _baseline_table(target: TargetReport) -> Table:
    """Return one row a baseline: accuracy, macro-F1 and least recall with intervals, recalls."""
    from rich.table import Table

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


@app.command(short_help="Write the page of a corpus or a slice.")
def card(folder: Annotated[Path, typer.Argument(metavar="CORPUS|SLICE", help="A corpus or a slice.")]) -> None:
    """Write card.html into the folder: counts, figures, baselines and provenance on one page."""
    from tinsmith.pages.cards import write_page

    print(f"wrote {write_page(folder)}")
