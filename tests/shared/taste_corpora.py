"""Small corpora for pairs: every month has some papers, and later ones that cite them as often as is said."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tinsmith.data.corpus import Corpus
from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper

GOOD, PLAIN = "duality of branes", "remarks about spinors"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cited:
    """One paper, and in which years it is cited how often."""

    id: str
    year: int
    citations: tuple[tuple[int, int], ...]
    month: int = 1
    field: str | None = None
    title: str = ""
    abstract: str | None = "An abstract of words."


def write(folder: Path, papers: Sequence[Cited], *, dated: bool = True, last_year: int = 2010) -> Corpus:
    """Write a corpus of these papers and of their citers, which have no title and so stand in no pair."""
    found: list[Paper] = []
    edges: list[tuple[str, str]] = []
    for one in papers:
        found.append(
            Paper(
                id=one.id,
                year=one.year,
                title=one.title or f"Title of {one.id}",
                abstract=one.abstract,
                field=one.field,
                date=dt.date(one.year, one.month, 1) if dated else None,
            )
        )
        for year, count in one.citations:
            for number in range(count):
                citer = f"citer-{year}-{number}"
                edges.append((citer, one.id))
    years = {(citer.split("-")[1], citer) for citer, _ in edges} | {(str(last_year), "last")}
    found += [
        Paper(id=name, year=int(year), date=dt.date(int(year), 12, 31) if dated else None)
        for year, name in sorted(years)
    ]
    with CorpusWriter(folder, source=SourceDescription(kind=SourceKind.FILES)) as writer:
        writer.add(found)
        writer.add_edges([citing for citing, _ in edges], [cited for _, cited in edges])
    return Corpus.open(folder)


def world(*, last: int = 2006) -> list[Cited]:
    """Return nine papers a month for some years, whose titles tell how often they are cited."""
    papers: list[Cited] = []
    for year in range(2001, last + 1):
        for month in (1, 5, 9):
            for number in range(9):
                much = number >= 6
                count = 5 + number if much else number % 3
                papers.append(
                    Cited(
                        id=f"p{year}-{month}-{number}",
                        year=year,
                        month=month,
                        citations=((year + 1, count),),
                        field=("theory", "experiment")[number % 2],
                        title=f"{GOOD if much else PLAIN} {number} {'x' * (number % 4)}",
                    )
                )
    return papers
