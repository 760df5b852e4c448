"""A user's own works as a source, fetched from the API with the part of the graph that their CD indices need.

The source has the works, their references, their citers and the citers of their references, on which their CD indices
depend: a citer counts in the years after a paper up to its window's end, and citers of its references count in the same
years. Other papers of the corpus lack citers and references, and their indices are meaningless.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Final

import msgspec

from tinsmith.data.corpus_card import SourceDescription
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.replacing import replacing
from tinsmith.data.schema import OWN_WORKS, WORKS_INPUT
from tinsmith.data.sources.lines import read_blocks
from tinsmith.data.sources.openalex.api import PER_PAGE, ApiQuery, Download
from tinsmith.data.sources.openalex.record import Keep, date_of, exclusion, year_of
from tinsmith.data.sources.openalex.schema import Node
from tinsmith.data.sources.openalex.source import PAGES, OpenAlexChoices
from tinsmith.types.errors import ConfigError, DataError
from tinsmith.types.fingerprints import sha256_of

PRICE: Final = 0.0001
"""US dollars per request for a list of works; a free key has 1 per day (OpenAlex's prices of 2026)."""
MOST_USD: Final = 1.0
WINDOW: Final = 5
"""Years in which citers of references are fetched."""
TOGETHER: Final = 100
"""Most values in one filter of the API."""

_KINDS: Final[Mapping[str, re.Pattern[str]]] = {
    "doi": re.compile(r"(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(10\.[\d.]+/\S+)", re.IGNORECASE),
    "openalex": re.compile(r"(?:https?://(?:api\.)?openalex\.org/(?:works/)?)?(W\d+)/?", re.IGNORECASE),
    "author.orcid": re.compile(r"(?:https?://orcid\.org/)?(\d{4}-\d{4}-\d{4}-\d{3}[\dX])/?", re.IGNORECASE),
    "authorships.institutions.ror": re.compile(r"(?:https?://)?(?:ror\.org/)?(0[a-z0-9]{6}\d{2})/?", re.IGNORECASE),
    "author.id": re.compile(r"(?:https?://openalex\.org/(?:authors/)?)?(A\d+)/?", re.IGNORECASE),
    "authorships.institutions.id": re.compile(r"(?:https?://openalex\.org/(?:institutions/)?)?(I\d+)/?", re.IGNORECASE),
}
_OPTION: Final = "--works"
_ALLOWED: Final = "a DOI, an ORCID, a ROR, or an id of OpenAlex (W..., A..., I...), or a file of them, one a line"


class _Work(msgspec.Struct):
    id: str = ""
    doi: str | None = None
    publication_year: int | None = None
    publication_date: str | None = None
    is_retracted: bool | None = None
    is_paratext: bool | None = None
    is_xpac: bool | None = None
    referenced_works: list[str] = []
    cited_by_count: int | None = None


class _Page(msgspec.Struct):
    results: list[_Work]


@dataclass(frozen=True, slots=True)
class Named:
    """Identifiers by the API's filter for them, in order of their first line."""

    by_filter: Mapping[str, Sequence[str]]

    def filters(self) -> list[str]:
        """Return filters that find the works, each with the API's maximum of values."""
        return [
            f"{name}:{'|'.join(values[start : start + TOGETHER])}"
            for name, values in self.by_filter.items()
            for start in range(0, len(values), TOGETHER)
        ]

    def missing(self, works: Sequence[_Work]) -> list[str]:
        """Return works listed by DOI or id that were not found."""
        found = {(one.doi or "").lower().removeprefix("https://doi.org/") for one in works}
        found |= {_short(one.id) for one in works}
        return [one for name in ("doi", "openalex") for one in self.by_filter.get(name, ()) if one not in found]


def read_names(works: str) -> Named:
    """Read an identifier, or a file with one per line; lines that begin with # are skipped.

    >>> read_names("https://orcid.org/0000-0002-1825-0097").filters()
    ['author.orcid:0000-0002-1825-0097']

    Raises:
        ConfigError: a line is not an identifier.
        DataError: the file is damaged, or is no text.
    """
    by_filter: dict[str, dict[str, None]] = {}
    for where, line in _lines(works):
        text = line.strip().strip('",;').strip()
        if not text or text.startswith("#"):
            continue
        name, value = _identifier(text, where)
        by_filter.setdefault(name, {})[value] = None
    if not by_filter:
        raise ConfigError("no work is named", field=_OPTION, value=works, allowed=_ALLOWED)
    return Named({name: list(values) for name, values in by_filter.items()})


def _lines(works: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a file, or `works` itself, each with its place for error messages."""
    file = Path(works)
    is_file = False
    with suppress(OSError):  # a list of identifiers may be too long for a name
        is_file = file.is_file()
    if not is_file:
        yield _OPTION, works
        return
    for block in read_blocks(file, file.name):
        for number, line in block.lines():
            where = f"{file.name}:{number}"
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise ConfigError("not UTF-8", field=where, value=repr(line[:50]), allowed=_ALLOWED) from None
            for part in text.splitlines():
                yield where, part


def _identifier(text: str, where: str) -> tuple[str, str]:
    for name, pattern in _KINDS.items():
        match = pattern.fullmatch(text)
        if match is None:
            continue
        value = match[1].lower() if name in ("doi", "authorships.institutions.ror") else match[1].upper()
        if "|" in value or "," in value:
            raise ConfigError(
                "the API cannot be asked for a DOI with | or ,", field=where, value=text, fix="name it by its W... id"
            )
        if name == "author.orcid" and _check_digit(value) != value[-1]:
            raise ConfigError("an ORCID whose last digit does not fit", field=where, value=text, fix="check its digits")
        return name, value
    what = "there is no such file, and this names no work" if where == _OPTION else "this names no work"
    raise ConfigError(what, field=where, value=text, allowed=_ALLOWED)


def _check_digit(orcid: str) -> str:
    """Return the check digit of an ORCID (ISO 7064, mod 11-2)."""
    total = 0
    for digit in orcid.replace("-", "")[:-1]:
        total = (total + int(digit)) * 2
    rest = (12 - total % 11) % 11
    return "X" if rest == 10 else str(rest)


@dataclass(frozen=True, slots=True)
class WorksSource:
    """Works listed by their ids, with the part of the graph that their CD indices need."""

    named: Named
    query: ApiQuery
    """Key and address; its filter is ignored."""
    out: Path
    choices: OpenAlexChoices
    say: Callable[[str], None] = field(compare=False)
    most_usd: float = MOST_USD

    def description(self) -> SourceDescription:
        """Return the source's description for the card."""
        named = {name: sorted(values) for name, values in self.named.by_filter.items()}
        return self.choices.description(WORKS_INPUT, works=sha256_of(named), window=str(WINDOW))

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Fetch the works, then their references, then all citers; read the pages."""
        steps = _Steps(self, progress)
        own = steps.fetch("own", self.named.filters(), "own works", afford=True)
        works = {_short(one.id): one for one in _works(own)}
        if not works:
            raise DataError("OpenAlex has none of these works", field="--works", fix="check their identifiers")
        missing = self.named.missing(list(works.values()))
        if missing:
            more = ", ..." if len(missing) > 5 else ""
            self.say(f"  not found: {len(missing):,} ({', '.join(missing[:5])}{more})")
        for reason, names in _left_out(works, self.choices.keep).items():
            self.say(f"  left out, {reason}: {', '.join(names)}")
        spans = _spans(works)
        cited = sorted(set(spans) - set(works))
        filters = [f"openalex:{'|'.join(part)}" for part in _parts(cited)]
        direct = [f"cites:{'|'.join(part)}" for part in _parts(list(works))]
        citations = sum(one.cited_by_count or 0 for one in works.values())
        self.say(f"  {len(works):,} works cite {len(spans):,} others, and are cited {citations:,} times")
        steps.afford(len(filters) + len(direct) + ceil(citations / PER_PAGE), "their references and citers")
        references = steps.fetch("references", filters, "references")
        counts = {_short(one.id): one.cited_by_count or 0 for one in _works(references)}
        counts |= {name: one.cited_by_count or 0 for name, one in works.items()}
        indirect = [
            f"cites:{'|'.join(part)},publication_year:{min(spans[one][0] for one in part)}-"
            f"{max(spans[one][1] for one in part)}"
            for part in _parts(sorted(spans, key=lambda one: (spans[one], one)))
        ]
        total = sum(counts.get(one, 0) for one in spans)
        most = len(direct) + ceil(citations / PER_PAGE) + len(indirect) + ceil(total / PER_PAGE)
        steps.afford(most, f"all citers, of the references {total:,} in all years")
        # A few papers do not show up to which year their citers were fetched.
        writer.end_before_last_change()
        pages = [*own, *references, *steps.fetch("citers", direct, "citers")]
        pages += steps.fetch("others", indirect, "citers of references")
        reader = self.choices.reader(writer, progress)
        with reader.works():
            for path in pages:
                reader.read(path, path.relative_to(self.out / PAGES).as_posix())
        writer.when_done(lambda: _finish(self.out, list(works)))


@dataclass(slots=True)
class _Steps:
    """Queries of a source, each in a folder of its own."""

    source: WorksSource
    progress: Progress
    _fetched: int = 0

    def fetch(self, name: str, filters: Sequence[str], what: str, *, afford: bool = False) -> list[Path]:
        """Fetch missing pages of some queries, and return the files of all pages.

        `afford`: check the budget after each query's first page, which announces their number.
        """

        def check(num_works: int) -> None:
            self.afford(ceil(num_works / PER_PAGE), what)

        self.progress.begin(f"{what}: queries", len(filters))
        pages: list[Path] = []
        for number, each in enumerate(filters, 1):
            query = replace(self.source.query, filter=each, more=("doi", "cited_by_count"))
            folder = self.source.out / PAGES / f"{name}-{number:05}"
            some = Download(query, folder, announce=check if afford else None, complete=True).run(Silent())
            self._fetched += len(some)
            pages += some
            self.progress.advance()
        return pages

    def afford(self, more: int, what: str) -> None:
        """Report the largest total cost of requests, including earlier ones.

        Raises:
            ConfigError: it exceeds the budget.
        """
        usd = (self._fetched + more) * PRICE
        text = f"{self._fetched:,} requests so far, at most {more:,} for {what}: ${usd:.2f} in all"
        self.source.say(f"  {text}")
        if usd > self.source.most_usd:
            raise ConfigError(
                text,
                field="--most-usd",
                value=self.source.most_usd,
                fix=f"--most-usd {ceil(usd * 10) / 10:g} (a free key has $1 a day: a stop is resumed), or fewer works",
            )


def _works(pages: Sequence[Path]) -> Iterator[_Work]:
    for page in pages:
        try:
            yield from msgspec.json.decode(page.read_bytes(), type=_Page).results
        except msgspec.MsgspecError as error:
            raise DataError(
                f"{page} is no list of works: {error}", fix=f"to begin again, remove {page.parent}"
            ) from None


def _node(work: _Work) -> Node:
    return Node(
        publication_year=work.publication_year,
        publication_date=work.publication_date,
        is_retracted=work.is_retracted,
        is_paratext=work.is_paratext,
        is_xpac=work.is_xpac,
    )


def _year(node: Node) -> int | None:
    """Return the year that the corpus will have: the date's, where the record has no other."""
    return year_of(node, date_of(node, lambda _counter, _reason: None))


def _left_out(works: Mapping[str, _Work], keep: frozenset[Keep]) -> dict[str, list[str]]:
    """Return the works that the corpus will not have, by reason."""
    reasons: dict[str, list[str]] = {}
    for name, work in works.items():
        node = _node(work)
        kind = exclusion(node, keep)
        if kind is not None:
            reasons.setdefault(f"{kind} (taken in with --keep {kind})", []).append(name)
        elif _year(node) is None:
            reasons.setdefault("without a year", []).append(name)
    return reasons


def _spans(works: Mapping[str, _Work]) -> dict[str, tuple[int, int]]:
    """Return the years in which citers of each reference count, for any of the works that cite it."""
    spans: dict[str, tuple[int, int]] = {}
    for one in works.values():
        year = _year(_node(one))
        if year is None:
            continue
        for reference in map(_short, one.referenced_works):
            first, last = spans.get(reference, (year, year + WINDOW))
            spans[reference] = (min(first, year), max(last, year + WINDOW))
    return spans


def _short(url: str) -> str:
    return url.rpartition("/")[2].upper()


def _parts(values: Sequence[str]) -> list[Sequence[str]]:
    return [values[start : start + TOGETHER] for start in range(0, len(values), TOGETHER)]


def _finish(out: Path, own: Sequence[str]) -> None:
    with replacing(out / OWN_WORKS) as part:
        part.write_text("".join(f"{one}\n" for one in sorted(own)), encoding="utf-8")
    shutil.rmtree(out / PAGES, ignore_errors=True)
