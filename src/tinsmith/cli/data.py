"""The `tinsmith data` verbs and their options: from raw sources to a frozen slice.

Each command imports what it runs when it is run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer
from typer import Argument, Option

from tinsmith.cli.columns import figures_table, open_console, with_options
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from tinsmith.data.baselines.report import BaselineReport, Figure, TargetReport
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.metrics_card import MetricsCard
    from tinsmith.data.slices.card import SliceCard
    from tinsmith.data.sources.source import Source

_Value = TypeVar("_Value")
Folder = Path | None
Files = list[Path] | None
Number = int | None
Str = str | None
Flag = bool | None
Kind = Literal["openalex", "sciscinet", "files", "synthetic"]

app = typer.Typer(
    name="data",
    help="From raw citation data to a frozen slice: fetch, build, metrics, slice, baselines, card.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(short_help="Fetch a published corpus.")
def fetch(
    name: Annotated[str, Argument(metavar="NAME", help="hepth: arXiv's hep-th, 1992 to 2003, of SNAP.")],
    out: Annotated[Path | None, Option(metavar="DIR", help="Its folder. Default: ./NAME.")] = None,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """Options of `tinsmith data build`; None if not given."""

    out: Annotated[Path, Option(metavar="CORPUS", help="The corpus's folder.")]
    source: Annotated[Kind | None, Option(help="Source of the papers. With --works: openalex.")] = None
    snapshot: Annotated[Folder, Option(metavar="DIR", help="openalex: a copy of the snapshot, any layout.")] = None
    pages: Annotated[Files, Option(metavar="FILE ...", help="openalex: saved pages of the API, or works.")] = None
    more_pages: Annotated[Files, Argument(metavar="[FILE ...]", hidden=True)] = None
    api: Annotated[Flag, Option("--api", help="openalex: the live API; a stop is resumed.")] = None
    works: Annotated[Str, Option(metavar="WHOSE", help="openalex: an ORCID, ROR, DOI or id, or a file of them.")] = None
    most_usd: Annotated[float | None, Option(metavar="USD", help="--works: what requests may cost. Default: 1.")] = None
    filter: Annotated[Str, Option(help="--api: which works, in OpenAlex's filter syntax.")] = None
    api_url: Annotated[Str, Option(metavar="URL", help="--api, --works: another server.")] = None
    api_key_env: Annotated[
        Str, Option(metavar="NAME", help="The variable that holds the API's key. Default: OPENALEX_API_KEY.")
    ] = None
    keep: Annotated[Str, Option(metavar="LIST", help="openalex, sciscinet: of retracted,paratext,xpac.")] = None
    graph_only: Annotated[Flag, Option("--graph-only", help="openalex: no texts; several times as fast.")] = None
    tables: Annotated[Folder, Option(metavar="DIR", help="sciscinet: the tables, TSV or parquet.")] = None
    papers: Annotated[Folder, Option(metavar="FILE", help="files: papers as JSON lines or an array.")] = None
    edges: Annotated[Folder, Option(metavar="FILE", help="files: citing and cited id on each line, TSV or CSV.")] = None
    preset: Annotated[Literal["tiny", "small", "full"] | None, Option(help="synthetic: the world's size.")] = None
    seed: Annotated[Number, Option(metavar="N", help="synthetic: seed of the world.")] = None
    drop_forward: Annotated[bool, Option("--drop-forward", help="Leave out references to later papers.")] = False
    strict: Annotated[Flag, Option("--strict", help="Stop at the first malformed line.")] = None
    skip_bad: Annotated[Flag, Option("--skip-bad", help="Use what can be read, however many lines are lost.")] = None
    force: Annotated[bool, Option("--force", help="Replace the corpus in CORPUS.")] = False


@app.command(short_help="Build a corpus of papers and citations.")
@with_options
def build(options: BuildOptions) -> None:
    """Make a corpus; with --works, one's own papers and their labels."""
    from tinsmith.cli.bar import interruptible, progress_bar
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.corpus_card import VALUE_WIDTH, summary
    from tinsmith.data.corpus_writer import check_vacant
    from tinsmith.data.own_labels import graph_warning, write_own_labels
    from tinsmith.data.quarantine import QUARANTINE, set_aside
    from tinsmith.data.sources.source import build_corpus

    pages = [*(options.pages or []), *(options.more_pages or [])]
    source = options.source or (None if options.works is None else "openalex")
    options = replace(options, pages=pages or None, source=_need(source, f"source {'|'.join(_BELONGS)}", "data build"))
    chosen = chosen_source(options)
    check_vacant(options.out, force=options.force)
    arguments = {"drop_forward": options.drop_forward, "strict": bool(options.strict), "force": options.force}
    with interruptible(resumes=bool(options.api or options.works)), progress_bar() as progress:
        card = build_corpus(chosen, options.out, **arguments, progress=progress)
    print(f"wrote {options.out}")
    for name, value in summary(card).items():
        print(f"  {name:<28}{value:>{VALUE_WIDTH}}")
    if card.quarantined:
        print(set_aside(options.out / QUARANTINE))
    corpus = Corpus.open(options.out)
    if options.works is None:
        if warning := graph_warning(corpus):
            print(warning)
        return
    with progress_bar() as progress:
        own = write_own_labels(corpus, progress)
    print(f"wrote {own.file}: {own.num_works:,} own works")
    for name, count in own.labels.items():
        print(f"  {name:<48}{count:>14,}")


_BELONGS = {
    "openalex": (
        "snapshot", "pages", "api", "works", "most_usd", "filter", "api_url", "api_key_env", "keep", "graph_only",
        "skip_bad", "strict",
    ),
    "sciscinet": ("tables", "keep", "skip_bad", "strict"),
    "files": ("papers", "edges", "skip_bad", "strict"),
    "synthetic": ("preset", "seed"),
}  # fmt: skip
"""Options of each source; another source's option is an error."""
_ONLINE = ("api", "works")
_OF_INPUT = {"filter": ("api",), "api_url": _ONLINE, "api_key_env": _ONLINE, "most_usd": ("works",)}


def chosen_source(options: BuildOptions) -> Source:
    """Return the source that the options name; an unfinished download waits in `out`."""
    for option in fields(options):
        owners = [owner for owner, own in _BELONGS.items() if option.name in own]
        if owners and options.source not in owners and getattr(options, option.name) is not None:
            whose = " or ".join(owners)
            raise ConfigError(f"{_flag(option.name)} belongs to --source {whose}, not to {options.source}")
    if options.strict and options.skip_bad:
        raise ConfigError("--strict and --skip-bad contradict each other")
    if options.source == "openalex":
        return _openalex(options)
    from tinsmith.data.sources.files import FilesSource
    from tinsmith.data.sources.sciscinet.source import KEEP, SciSciNetSource
    from tinsmith.data.sources.streams import require_files
    from tinsmith.data.sources.synthetic import SyntheticSource
    from tinsmith.data.sources.world.spec import Preset

    named, skip_bad = f"--source {options.source}", bool(options.skip_bad)
    if options.source == "sciscinet":
        tables = _need(options.tables, "tables", named)
        return SciSciNetSource(tables, frozenset(_choices(options.keep, KEEP)), skip_bad)
    if options.source == "files":
        papers, edges = _need(options.papers, "papers", named), _need(options.edges, "edges", named)
        require_files(papers=[papers], edges=[edges])
        return FilesSource(papers, edges, skip_bad)
    return SyntheticSource(Preset(_need(options.preset, "preset", named)), options.seed or 0)


def _openalex(options: BuildOptions) -> Source:
    from tinsmith.data.sources.openalex.api import API, ApiQuery, key_from_environment
    from tinsmith.data.sources.openalex.own_works import MOST_USD, WorksSource, read_names
    from tinsmith.data.sources.openalex.record import Keep
    from tinsmith.data.sources.openalex.source import ApiSource, OpenAlexChoices, PagesSource, SnapshotSource
    from tinsmith.data.sources.streams import require_files

    choices = OpenAlexChoices(
        keep=frozenset(Keep(word) for word in _choices(options.keep, tuple(Keep))),
        graph_only=bool(options.graph_only),
        skip_bad=bool(options.skip_bad),
    )
    inputs = [name for name in ("snapshot", "pages", "api", "works") if getattr(options, name)]
    if len(inputs) != 1:
        raise ConfigError("--source openalex needs one of --snapshot, --pages, --api and --works")
    for name, owners in _OF_INPUT.items():
        if getattr(options, name) is not None and inputs[0] not in owners:
            raise ConfigError(f"{_flag(name)} belongs to {' or '.join(map(_flag, owners))}")
    if options.snapshot is not None:
        return SnapshotSource(options.snapshot, choices)
    if options.pages:
        require_files(pages=options.pages)
        return PagesSource(tuple(options.pages), choices)
    named = None if options.works is None else read_names(options.works)
    query = ApiQuery(
        filter="" if named else _need(options.filter, "filter", "--api"),
        key=key_from_environment(options.api_key_env or "OPENALEX_API_KEY"),
        url=(options.api_url or API).rstrip("/"),
        graph_only=choices.graph_only,
        xpac=Keep.XPAC in choices.keep,
    )
    if named is None:
        return ApiSource(query, options.out, choices)
    most = MOST_USD if options.most_usd is None else options.most_usd
    return WorksSource(named, query, options.out, choices, print, most)


def _choices(text: str | None, allowed: tuple[str, ...]) -> list[str]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if wrong := next((word for word in words if word not in allowed), None):
        raise ConfigError("--keep has no such value", field="keep", value=wrong, allowed=allowed)
    return words


def _need(value: _Value | None, name: str, what: str) -> _Value:
    if value is None:
        raise ConfigError(f"{what} needs {_flag(name)}")
    return value


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@app.command(short_help="Compute CD indices and atypicality of all papers.")
def metrics(
    corpus: Annotated[Path, Argument(metavar="CORPUS", help="A corpus's folder.")],
    window: Annotated[int, Option(metavar="YEARS", help="Years in which citers count.")] = 5,
    granularity: Annotated[
        Literal["year", "day"], Option(help="Citers of later years count; or of later days: papers need dates.")
    ] = "year",
    window_days: Annotated[Number, Option(metavar="N", help="With days. Default: 1826 for five years.")] = None,
    null: Annotated[
        Literal["closed", "switching"], Option(help="Chance, for journal pairs: its exact mean; or drawn networks.")
    ] = "closed",
    nulls: Annotated[Number, Option(metavar="N", help="With switching: networks to draw. Default: 10.")] = None,
    seed: Annotated[Number, Option(help="With switching: seed of the drawn networks. Default: 0.")] = None,
    pool_years: Annotated[
        int, Option(metavar="K", help="Compare the pairs of K citing years: small corpora, 3-5.")
    ] = 1,
    threads: Annotated[Number, Option(metavar="N", help="Threads. Default: one per core. Changes no bit.")] = None,
) -> None:
    """Compute CD indices and atypicality of every paper, on the full graph."""
    from tinsmith.cli.bar import progress_bar
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.indices.atypicality import Null, NullModel
    from tinsmith.data.metrics import compute_metrics
    from tinsmith.data.metrics_card import Granularity, MetricSettings
    from tinsmith.ops.extension import configure

    drawn = {name: value for name, value in (("nulls", nulls), ("seed", seed)) if value is not None}
    if drawn and null == "closed":
        raise ConfigError("no networks are drawn", field=", ".join(map(_flag, drawn)), fix="--null switching")
    chance = Null(model=NullModel(null), **drawn)
    settings = MetricSettings(
        window=window, granularity=Granularity(granularity), window_days=window_days, null=chance, pool_years=pool_years
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
    """Return name -> text in display order; labels at the corpus's own cut, or else at the source notes'."""
    import numpy as np

    from tinsmith.data.labels import SEED_CUT, UNDEFINED, Disruption, Thresholds

    cut = corpus.card.thresholds or SEED_CUT
    columns = corpus.metrics("cd", "cd_status", "full_window", "z_p10")
    cd = columns["cd"].fill_null(np.nan).to_numpy()
    codes = Thresholds(cut=cut).disruption_codes(cd, columns["cd_status"])
    labelled = max(1, int((codes != UNDEFINED).sum()))
    rows = {"papers": f"{card.papers:,}", "edges": f"{card.edges:,}"}
    rows |= {f"cd: {name.replace('_', ' ')}": f"{(columns['cd_status'] == name).sum():,}" for name in card.status}
    rows["with a full window"] = f"{columns['full_window'].sum():,}"
    for code, label in enumerate(Disruption):
        if label is not Disruption.NEUTRAL:
            share = int((codes == code).sum()) / labelled
            rows[f"{label} at |cd| >= {cut:g}"] = f"{share:.1%}"
    rows["with journal pairs"] = f"{columns['z_p10'].count():,}"
    if card.undefined_pair_cells:
        rows["pairs without spread"] = f"{card.undefined_pair_cells:,} of {card.pair_cells:,}"
    return rows | {"seconds": f"{seconds:.1f}", "fingerprint": card.fingerprint}


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOptions:
    """Options of `tinsmith data slice`."""

    corpus: Annotated[
        Path, Argument(metavar="CORPUS|FILE", help="A corpus with metrics; or labelled papers, JSON lines.")
    ]
    out: Annotated[Path, Option(metavar="DIR", help="The slice's folder.")]
    task: Annotated[
        Literal["disruption", "novelty", "joint"],
        Option(help="Label to predict; joint: both, balanced over the nine pairs of labels."),
    ] = "disruption"
    cut: Annotated[
        float | None, Option(help="The |CD| from which a paper is labelled; of a FILE, to check its labels.")
    ] = None
    mode: Annotated[
        Literal["inclusive", "strict", "legacy"], Option(help="At the cut: >=; >; or rounded to 4 decimals, then >.")
    ] = "inclusive"
    margin: Annotated[float | None, Option(help="Between the two scores, for novelty. Default: 0.15.")] = None
    per_class: Annotated[Number, Option(metavar="N", help="N of each class, over all splits.")] = None
    natural: Annotated[
        bool, Option("--natural", help="Keep the mixture of classes as it is, instead of --per-class.")
    ] = False
    train: Annotated[Number, Option(metavar="N", help="At most N rows, default all. FILE: N, default 0.8.")] = None
    validation: Annotated[Number, Option(metavar="N", help="At most N rows, default all. FILE: N, default 0.1.")] = None
    test: Annotated[Number, Option(metavar="N", help="At most N rows, default all. FILE: N, default 0.1.")] = None
    seed: Annotated[int, Option(help="Seed of the choice of papers and of the splits.")] = 0
    splits: Annotated[
        Literal["native", "legacy"] | None, Option(help="By the id's hash, the default; or by one seeded shuffle.")
    ] = None
    oversample: Annotated[bool, Option("--oversample", help="Repeat training papers of a class that is short.")] = False
    status: Annotated[Literal["ok"] | None, Option(help="Only papers with references and citers.")] = None
    keep_no_refs: Annotated[bool, Option("--keep-no-refs", help="Label papers without a reference, too.")] = False
    full_window: Annotated[bool, Option("--full-window", help="Only papers whose whole window is in the corpus.")] = (
        False
    )
    min_references: Annotated[int, Option(metavar="K", help="Fewest references in the corpus.")] = 0
    min_citers: Annotated[int, Option(metavar="K", help="Fewest citers in the corpus.")] = 0
    before: Annotated[Str, Option(metavar="DATE", help="Published before YYYY[-MM[-DD]].")] = None
    after: Annotated[Str, Option(metavar="DATE", help="Published on or after YYYY[-MM[-DD]].")] = None
    leave_out: Annotated[Folder, Option(metavar="FILE", help="Without the papers whose ids are in it, one a line.")] = (
        None
    )
    no_citations: Annotated[bool, Option("--no-citations", help="Leave out citation counts, which leak the label.")] = (
        False
    )
    no_year: Annotated[bool, Option("--no-year", help="Leave out the year, which leaks the label.")] = False
    skip_bad: Annotated[bool, Option("--skip-bad", help="FILE: use what can be read, however much is lost.")] = False
    force: Annotated[bool, Option("--force", help="Replace another slice that is in OUT.")] = False


@app.command("slice", short_help="Cut a frozen, labelled slice.")
@with_options
def cut_slice(options: SliceOptions) -> None:
    """Cut a frozen slice: labelled, chosen and split by the hash of each paper's id; a FILE is split by a shuffle."""
    from tinsmith.cli.bar import progress_bar
    from tinsmith.data.corpus import Corpus
    from tinsmith.data.indices.cd_status import CdStatus
    from tinsmith.data.labels import NOVELTY_MARGIN, SEED_CUT, LabelMode, Thresholds
    from tinsmith.data.slices.cutting import make_slice
    from tinsmith.data.slices.file_slice import FileChoices, check_options, make_file_slice
    from tinsmith.data.slices.leave_out import read_left_out
    from tinsmith.data.slices.pool import LEFT_OUT
    from tinsmith.data.slices.settings import Caps, SliceSettings, Task, parse_day
    from tinsmith.data.slices.splits import SplitScheme

    if not options.corpus.exists():
        fix = "check the path; a corpus is made with: tinsmith data build ..."
        raise ConfigError("there is no such file or corpus", field="CORPUS|FILE", value=str(options.corpus), fix=fix)
    source = None if options.corpus.is_file() else Corpus.open(options.corpus)
    if source is not None and options.natural == (options.per_class is not None):
        what = "a slice is either balanced (--per-class) or natural (--natural)"
        raise ConfigError(what, field="--per-class, --natural", allowed="exactly one of the two")
    if source is not None and options.skip_bad:
        raise ConfigError("--skip-bad belongs to a FILE of labelled papers")
    cut = source.card.thresholds if source and options.cut is None else options.cut
    if source is not None and cut is None:
        what = "this corpus has no cut of its own, so name one"
        raise ConfigError(what, field="--cut", fix="--cut 0.001 for a corpus of millions, about 0.01 for 30,000 papers")
    named = ((Task.DISRUPTION, options.cut), (Task.NOVELTY, options.margin))
    checked = frozenset(task for task, threshold in named if threshold is not None)
    if source is None:
        check_options(LabelMode(options.mode), checked, natural=options.natural, oversample=options.oversample)
    settings = SliceSettings(
        task=Task(options.task),
        thresholds=Thresholds(
            cut=SEED_CUT if cut is None else cut,
            mode=LabelMode(options.mode),
            margin=NOVELTY_MARGIN if options.margin is None else options.margin,
            keep_no_refs=options.keep_no_refs,
        ),
        per_class=options.per_class,
        caps=Caps(train=options.train, validation=options.validation, test=options.test),
        seed=options.seed,
        scheme=SplitScheme(options.splits or ("native" if source else "shuffled")),
        oversample=options.oversample,
        status=None if options.status is None else CdStatus(options.status),
        full_window=options.full_window,
        min_references=options.min_references,
        min_citers=options.min_citers,
        before=None if options.before is None else parse_day(options.before, "--before"),
        after=None if options.after is None else parse_day(options.after, "--after"),
        citations=not options.no_citations,
        year=not options.no_year,
    )
    with progress_bar() as progress:
        left_out = None if options.leave_out is None else read_left_out(options.leave_out)
        if source is None:
            cut_one = partial(make_file_slice, options.corpus, choices=FileChoices(checked, options.skip_bad))
        else:
            cut_one = partial(make_slice, source)
        card = cut_one(settings, options.out, progress=progress, force=options.force, left_out=left_out)
    console = open_console()
    lines = card.summary
    if left_out is not None and (absent := len(left_out) - card.removed[LEFT_OUT]):
        lines.append(f"{absent:,} of {len(left_out):,} ids to be left out are not in the corpus")
    console.print("\n".join(lines), markup=False, soft_wrap=True)
    console.print(_slice_table(card))
    console.print(f"wrote {options.out} (sha256 {card.sha256})", markup=False, soft_wrap=True)


def _slice_table(card: SliceCard) -> Table:
    """Return the rows of each split by label; by both labels of a joint slice."""
    from tinsmith.data.slices.settings import Task

    task = card.settings.task
    tasks = (Task.DISRUPTION, Task.NOVELTY) if task is Task.JOINT else (task,)
    names = [name for one in tasks for name in one.classes]
    table = figures_table("split", "rows", *names)
    for split, one in card.splits.items():
        counts = {**one.disruption, **one.novelty}  # the labels of the two have no name in common
        table.add_row(split.value, f"{one.rows:,}", *(f"{counts[name]:,}" for name in names))
    return table


@app.command(short_help="Score the baselines that any model must beat.")
def baselines(
    folder: Annotated[Path, Argument(metavar="SLICE", help="A slice's folder.")],
    seed: Annotated[int, Option(help="Seed of the bootstrap.")] = 0,
    train_rows: Annotated[Number, Option(metavar="N", help="Train on the first N rows. Default: 50,000.")] = None,
) -> None:
    """Score what any model must beat: majority, prior, metadata, TF-IDF, both, and a world's oracle."""
    from tinsmith.data.slices.card import read_slice_card

    read_slice_card(folder)  # before what is heavy is imported
    from tinsmith.cli.bar import progress_bar
    from tinsmith.data.baselines.fitting import TRAIN_ROWS, run_baselines
    from tinsmith.data.slices.reader import Slice

    rows = TRAIN_ROWS if train_rows is None else train_rows
    with progress_bar() as progress:
        report = run_baselines(Slice.open(folder), seed=seed, train_rows=rows, progress=progress)
    console = open_console()
    for target in report.targets:
        console.print("\n".join(_baseline_lines(report, target)), markup=False, soft_wrap=True)
        console.print(_baseline_table(target))


def _baseline_lines(report: BaselineReport, target: TargetReport) -> list[str]:
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
    heads = ("accuracy", "macro-F1", "min recall", *(f"{name[:4]}." for name in target.classes))
    table = figures_table("baseline", *heads)
    for column in table.columns:
        column.no_wrap = True
    for score in target.scores:
        figures = map(_figure, (score.accuracy, score.macro_f1, score.min_class_recall))
        recalls = (f"{score.recall[name].value:.2f}" if name in score.recall else "-" for name in target.classes)
        table.add_row(score.baseline.value, *figures, *recalls)
    return table


def _figure(figure: Figure) -> str:
    low, high = (f"{bound:.2f}".removeprefix("0") for bound in (figure.low, figure.high))
    return f"{figure.value:.3f} {low}-{high}"


@app.command(short_help="Write the page of a corpus or a slice.")
def card(folder: Annotated[Path, Argument(metavar="CORPUS|SLICE", help="A corpus or a slice.")]) -> None:
    """Write card.html into the folder: counts, figures, baselines and provenance on one page."""
    from tinsmith.pages.cards import write_page

    print(f"wrote {write_page(folder)}")
