"""The `tinsmith data` verbs: from raw sources to a frozen slice.

Each command imports what it runs when it is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from tinsmith.cli.data import options

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


@app.command(short_help="Make a corpus of papers and citations.")
def build(
    source: options.SourceName,
    out: options.Out,
    snapshot: options.Snapshot = None,
    pages: options.Pages = None,
    more_pages: options.MorePages = None,
    api: options.Api = None,
    works: options.Works = None,
    most_usd: options.MostUsd = None,
    filter: options.Filter = None,
    api_url: options.ApiUrl = None,
    api_key_env: options.ApiKeyEnv = None,
    keep: options.Keep = None,
    graph_only: options.GraphOnly = None,
    tables: options.Tables = None,
    papers: options.Papers = None,
    edges: options.Edges = None,
    preset: options.PresetName = None,
    seed: options.Seed = None,
    drop_forward: options.DropForward = False,
    strict: options.Strict = None,
    skip_bad: options.SkipBad = None,
    force: options.Force = False,
) -> None:
    """Make a corpus; with --works, one's own papers and their labels."""
    from tinsmith.cli.bar import progress_bar
    from tinsmith.cli.data.build_source import BuildOptions, chosen_source
    from tinsmith.data.corpus_card import SourceKind, summary
    from tinsmith.data.corpus_writer import check_vacant
    from tinsmith.data.sources.source import build_corpus

    given = BuildOptions(
        snapshot=snapshot,
        pages=tuple((pages or []) + (more_pages or [])) or None,
        api=api,
        works=works,
        most_usd=most_usd,
        filter=filter,
        api_url=api_url,
        api_key_env=api_key_env,
        keep=keep,
        graph_only=graph_only,
        tables=tables,
        papers=papers,
        edges=edges,
        preset=preset,
        seed=seed,
        skip_bad=skip_bad,
        strict=strict,
    )
    chosen = chosen_source(SourceKind(source), given, out)
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
    threads: Annotated[int | None, typer.Option(metavar="N", help="Default: one per core. Changes no bit.")] = None,
) -> None:
    """Compute CD indices and atypicality of every paper, on the full graph."""
    import time

    from tinsmith.cli.bar import progress_bar
    from tinsmith.cli.data.slice_tables import summary
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
    for name, value in summary(opened, computed, seconds).items():
        print(f"  {name:<28}{value:>14}")


@app.command("slice", short_help="Cut a frozen, labelled slice.")
def cut_slice(
    corpus: options.CorpusFolder,
    out: options.SliceFolder,
    task: options.TaskName = "disruption",
    cut: options.Cut = None,
    mode: options.Mode = "inclusive",
    margin: options.Margin = None,
    per_class: options.PerClass = None,
    natural: options.Natural = False,
    train: options.Cap = None,
    validation: options.Cap = None,
    test: options.Cap = None,
    seed: options.SliceSeed = 0,
    splits: options.Splits = "native",
    oversample: options.Oversample = False,
    status: options.Status = None,
    keep_no_refs: options.KeepNoRefs = False,
    full_window: options.FullWindow = False,
    min_references: options.MinReferences = 0,
    min_citers: options.MinCiters = 0,
    before: options.Before = None,
    after: options.After = None,
    leave_out: options.LeaveOut = None,
    no_citations: options.NoCitations = False,
    no_year: options.NoYear = False,
    force: options.ReplaceSlice = False,
) -> None:
    """Cut a frozen slice: labelled, chosen and split by the hash of each paper's id."""
    from tinsmith.cli.bar import progress_bar
    from tinsmith.cli.columns import open_console
    from tinsmith.cli.data.slice_tables import slice_lines, slice_table
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
    console.print("\n".join(slice_lines(card)), markup=False, soft_wrap=True)
    console.print(slice_table(card))
    console.print(f"wrote {out} (sha256 {card.sha256})", markup=False, soft_wrap=True)


@app.command(short_help="Score what any model must beat.")
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
    from tinsmith.cli.data.slice_tables import baseline_lines, baseline_table
    from tinsmith.data.baselines.fitting import TRAIN_ROWS, run_baselines
    from tinsmith.data.slices.reader import Slice

    rows = TRAIN_ROWS if train_rows is None else train_rows
    with progress_bar() as progress:
        opened = Slice.open(folder)
        report = run_baselines(opened, seed=seed, train_rows=rows, progress=progress)
    console = open_console()
    for target in report.targets:
        console.print("\n".join(baseline_lines(report, target)), markup=False, soft_wrap=True)
        console.print(baseline_table(target))


@app.command(short_help="Write the page of a corpus or a slice.")
def card(folder: Annotated[Path, typer.Argument(metavar="CORPUS|SLICE", help="A corpus or a slice.")]) -> None:
    """Write card.html into the folder: counts, figures, baselines and provenance on one page."""
    from tinsmith.pages.cards.slice import write_page

    print(f"wrote {write_page(folder)}")
