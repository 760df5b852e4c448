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
from tinsmith.data.sources.json_text import NOT_JSON
from tinsmith.data.sources.kinds import Malformed
from tinsmith.data.sources.lines import read_blocks
from tinsmith.data.sources.openalex.api import PER_PAGE, ApiQuery, Download
from tinsmith.data.sources.openalex.record import Keep, date_of, exclusion, short_id, short_references, year_of
from tinsmith.data.sources.openalex.schema import Listed, Node, read_listed
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


class _Page(msgspec.Struct):
    results: list[msgspec.Raw]


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

    def missing(self, works: Mapping[str, Listed]) -> list[str]:
        """Return works listed by DOI or id that were not found."""
        found = {(one.doi or "").lower().removeprefix("https://doi.org/") for one in works.values()}.union(works)
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
        own = steps.fetch("own", self.named.filters(), "own works")
        works = dict(_works(own))
        if not works:
            raise DataError("OpenAlex has none of these works", field="--works", fix="check their identifiers")
        missing = self.named.missing(works)
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
        most = _most(len(filters), len(cited)) + _most(len(direct), citations)
        steps.afford(most, "their references and citers")
        references = steps.fetch("references", filters, "references")
        counts = {name: one.cited_by_count or 0 for name, one in (*_works(references), *works.items())}
        # References that OpenAlex no longer has are in no index, whatever cites them.
        there = sorted(spans.keys() & counts.keys(), key=lambda one: (spans[one], one))
        indirect = [
            f"cites:{'|'.join(part)},publication_year:{min(spans[one][0] for one in part)}-"
            f"{max(spans[one][1] for one in part)}"
            for part in _parts(there)
        ]
        total = sum(counts[one] for one in there)
        most = _most(len(direct), citations) + _most(len(indirect), total)
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
    _allowed: int = 0
    """Most requests that were announced."""

    def fetch(self, name: str, filters: Sequence[str], what: str) -> list[Path]:
        """Fetch missing pages of some queries, and return the files of all pages.

        Raises:
            ConfigError: the next request exceeds the budget, or the works that a query announces do.
        """
        self.progress.begin(f"{what}: queries", len(filters))
        pages: list[Path] = []
        for number, each in enumerate(filters, 1):

            def permit(earlier: int, announced: int | None, later: int = len(filters) - number) -> None:
                self._hold(max(earlier + 1, ceil((announced or 0) / PER_PAGE)) + later, what)

            query = replace(self.source.query, filter=each, more=("doi", "cited_by_count"))
            folder = self.source.out / PAGES / f"{name}-{number:05}"
            some = Download(query, folder, permit=permit, complete=True).run(Silent())
            self._fetched += len(some)
            pages += some
            self.progress.advance()
        return pages

    def _hold(self, least: int, what: str) -> None:
        """Hold the requests that are left to do against what was announced, and against the budget."""
        if self._fetched + least > self._allowed:
            self._announce(least, f"at least {least:,} for {what}")

    def afford(self, most: int, what: str) -> None:
        """Report the largest total cost of requests, including earlier ones.

        Raises:
            ConfigError: it exceeds the budget.
        """
        self._announce(most, f"at most {most:,} for {what}")

    def _announce(self, more: int, text: str) -> None:
        self._allowed = self._fetched + more
        usd = round(self._allowed * PRICE, 9)
        text = f"{self._fetched:,} requests so far, {text}: ${usd:.2f} in all"
        self.source.say(f"  {text}")
        if usd > self.source.most_usd:
            raise ConfigError(
                text,
                field="--most-usd",
                value=self.source.most_usd,
                fix=f"--most-usd {ceil(usd * 10) / 10:g} (a free key has $1 a day: a stop is resumed), or fewer works",
            )


def _most(queries: int, works: int) -> int:
    """Return the most requests of some queries for that many works: each may end with a short page and an empty one."""
    return 2 * queries + works // PER_PAGE


def _works(pages: Sequence[Path]) -> Iterator[tuple[str, Listed]]:
    """Yield the id of each work and what further queries need of it; the corpus's reader sets malformed ones aside."""
    for page in pages:
        try:
            found = msgspec.json.decode(page.read_bytes(), type=_Page).results
        except NOT_JSON as error:
            raise DataError(
                f"{page} is no list of works: {error}", fix=f"to begin again, remove {page.parent}"
            ) from None
        for one in found:
            with suppress(Malformed):
                work = read_listed(one)
                if name := short_id(work.id).upper():
                    yield name, work


def _year(node: Node) -> int | None:
    """Return the year that the corpus will have: the date's, where the record has no other."""
    return year_of(node, date_of(node, _ignore))


def _ignore(_counter: str, _reason: str) -> None:
    """Leave an unreadable value to the corpus's reader, which counts it."""


def _left_out(works: Mapping[str, Listed], keep: frozenset[Keep]) -> dict[str, list[str]]:
    """Return the works that the corpus will not have, by reason."""
    reasons: dict[str, list[str]] = {}
    for name, work in works.items():
        kind = exclusion(work, keep)
        if kind is not None:
            reasons.setdefault(f"{kind} (taken in with --keep {kind})", []).append(name)
        elif _year(work) is None:
            reasons.setdefault("without a year", []).append(name)
    return reasons


def _spans(works: Mapping[str, Listed]) -> dict[str, tuple[int, int]]:
    """Return the years in which citers of each reference count, for any of the works that cite it."""
    spans: dict[str, tuple[int, int]] = {}
    for one in works.values():
        year = _year(one)
        if year is None:
            continue
        for reference in short_references(one.referenced_works, _ignore):
            first, last = spans.get(reference, (year, year + WINDOW))
            spans[reference] = (min(first, year), max(last, year + WINDOW))
    return spans


def _parts(values: Sequence[str]) -> list[Sequence[str]]:
    return [values[start : start + TOGETHER] for start in range(0, len(values), TOGETHER)]


def _finish(out: Path, own: Sequence[str]) -> None:
    with replacing(out / OWN_WORKS) as part:
        part.write_text("".join(f"{one}\n" for one in sorted(own)), encoding="utf-8")
    shutil.rmtree(out / PAGES, ignore_errors=True)
