"""Which source the options of `tinsmith data build` mean; an option of another source is an error."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from tinsmith.data.corpus_card import SourceKind
from tinsmith.data.sources.source import Source
from tinsmith.types.errors import ConfigError

_Value = TypeVar("_Value")

_BELONGS = {
    SourceKind.OPENALEX: (
        "snapshot", "pages", "api", "works", "most_usd", "filter", "api_url", "api_key_env", "keep", "graph_only",
        "skip_bad", "strict",
    ),
    SourceKind.SCISCINET: ("tables", "keep", "skip_bad", "strict"),
    SourceKind.FILES: ("papers", "edges", "skip_bad", "strict"),
    SourceKind.SYNTHETIC: ("preset", "seed"),
}  # fmt: skip
_KEY = "OPENALEX_API_KEY"
_OF_INPUT = {
    "filter": ("api",), "api_url": ("api", "works"), "api_key_env": ("api", "works"), "most_usd": ("works",),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What was said about the source on the command line; None is what was not."""

    snapshot: Path | None = None
    pages: tuple[Path, ...] | None = None
    api: bool | None = None
    works: str | None = None
    most_usd: float | None = None
    filter: str | None = None
    api_url: str | None = None
    api_key_env: str | None = None
    keep: str | None = None
    graph_only: bool | None = None
    tables: Path | None = None
    papers: Path | None = None
    edges: Path | None = None
    preset: str | None = None
    seed: int | None = None
    skip_bad: bool | None = None
    strict: bool | None = None


def chosen_source(kind: SourceKind, options: BuildOptions, out: Path) -> Source:
    """Return the source; `out` is where an unfinished download waits."""
    for option in fields(options):
        given = getattr(options, option.name) is not None
        if given and option.name not in _BELONGS[kind]:
            owners = " or ".join(owner for owner, own in _BELONGS.items() if option.name in own)
            raise ConfigError(f"{_flag(option.name)} belongs to --source {owners}, not to {kind.value}")
    if options.strict and options.skip_bad:
        raise ConfigError("--strict and --skip-bad contradict each other")
    match kind:
        case SourceKind.OPENALEX:
            return _openalex(options, out)
        case SourceKind.SCISCINET:
            return _sciscinet(options)
        case SourceKind.FILES:
            return _files(options)
        case SourceKind.SYNTHETIC:
            return _synthetic(options)


def _openalex(options: BuildOptions, out: Path) -> Source:
    from tinsmith.data.sources.openalex.api import API, ApiQuery, key_from_environment
    from tinsmith.data.sources.openalex.own_works import MOST_USD, WorksSource, read_names
    from tinsmith.data.sources.openalex.record import Keep
    from tinsmith.data.sources.openalex.source import ApiSource, OpenAlexChoices, PagesSource, SnapshotSource

    choices = OpenAlexChoices(
        keep=frozenset(Keep(word) for word in _kept(options.keep, tuple(Keep))),
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
        return PagesSource(options.pages, choices)
    named = None if options.works is None else read_names(options.works)
    query = ApiQuery(
        filter="" if named else _need(options.filter, "filter", "--api"),
        key=key_from_environment(options.api_key_env or _KEY),
        url=(options.api_url or API).rstrip("/"),
        graph_only=choices.graph_only,
        xpac=Keep.XPAC in choices.keep,
    )
    if named is None:
        return ApiSource(query, out, choices)
    return WorksSource(named, query, out, choices, print, MOST_USD if options.most_usd is None else options.most_usd)


def _sciscinet(options: BuildOptions) -> Source:
    from tinsmith.data.sources.sciscinet.source import KEEP, SciSciNetSource

    tables = _need(options.tables, "tables", "--source sciscinet")
    return SciSciNetSource(tables, frozenset(_kept(options.keep, KEEP)), bool(options.skip_bad))


def _files(options: BuildOptions) -> Source:
    from tinsmith.data.sources.files import FilesSource

    papers = _need(options.papers, "papers", "--source files")
    edges = _need(options.edges, "edges", "--source files")
    return FilesSource(papers, edges, bool(options.skip_bad))


def _synthetic(options: BuildOptions) -> Source:
    from tinsmith.data.sources.synthetic import SyntheticSource
    from tinsmith.data.sources.world.spec import Preset

    preset = _need(options.preset, "preset", "--source synthetic")
    return SyntheticSource(Preset(preset), options.seed or 0)


def _kept(text: str | None, allowed: tuple[str, ...]) -> list[str]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    for word in words:
        if word not in allowed:
            raise ConfigError("--keep has no such value", field="keep", value=word, allowed=", ".join(allowed))
    return words


def _need(value: _Value | None, name: str, what: str) -> _Value:
    if value is None:
        raise ConfigError(f"{what} needs {_flag(name)}")
    return value


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
