"""A source of two files: papers as JSON lines, and edges as `citing<TAB>cited` lines."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper
from tinsmith.data.progress import Progress
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Delimited, read_header
from tinsmith.data.sources.journal import journal_name
from tinsmith.data.sources.lines import Block, Malformed, read_blocks

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_ENDS = ("citing", "cited")


class _Line(msgspec.Struct, gc=False):
    """A line of the papers; other keys are not read."""

    id: str | int
    title: str | None = None
    abstract: str | None = None
    date: str | None = None
    """YYYY-MM-DD, YYYY-MM (its first day) or YYYY (no date, only the year)."""
    year: int | None = None
    venue: str | None = None
    journal_ref: str | None = None
    """A free reference, reduced to the journal's name where there is no `venue`."""
    field: str | None = None
    concepts: list[str] | None = None
    cited_by_count: Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None = None
    type: str | None = None
    language: str | None = None


_DECODER = msgspec.json.Decoder(_Line)


@dataclass(frozen=True, slots=True)
class FilesSource:
    """Papers and edges in a form that any tool can write; ids are strings and stay as they are."""

    papers: Path
    edges: Path
    skip_bad: bool = False

    def description(self) -> SourceDescription:
        """What the card says."""
        return SourceDescription(kind=SourceKind.FILES, settings={"papers": self.papers.name, "edges": self.edges.name})

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Read the papers, then the edges."""
        complaints = Complaints(writer, self.skip_bad)
        progress.begin("papers read", None)
        with complaints.until_damage():
            for block in read_blocks(self.papers, self.papers.name):
                papers = list(self._read(block, complaints))
                writer.add(papers)
                progress.advance(len(papers))
        progress.begin("edges read", None)
        name = self.edges.name
        header = [field.lower() for field in read_header(self.edges, name)] == list(_ENDS)
        table = Delimited(self.edges, name, _ENDS, header=header, comment=b"#", full=True)
        for rows in table.rows(complaints):
            writer.add_edges(rows.frame["citing"], rows.frame["cited"])
            progress.advance(rows.frame.height)

    def _read(self, block: Block, complaints: Complaints) -> Iterator[Paper]:
        for number, line in block.lines():
            try:
                yield _paper(line)
            except Malformed as error:
                shown = line.decode("utf-8", "replace")
                complaints.malformed(self.papers.name, number, str(error), shown)


def _paper(line: bytes) -> Paper:
    try:
        record = _DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise Malformed(str(error)) from None
    date, year = None, record.year
    if record.date:
        date, dated = _date(record.date)
        year = dated if year is None else year
    if year is not None and not 0 < year < 10_000:
        raise Malformed(f"no year: {year}")
    journal = journal_name(record.journal_ref) if record.journal_ref else None
    return Paper(
        id=str(record.id),
        year=year,
        title=record.title or None,
        abstract=record.abstract or None,
        date=date,
        venue=record.venue or journal,
        field=record.field or None,
        concepts=record.concepts or (),
        type=record.type or None,
        language=record.language or None,
        cited_by_count=record.cited_by_count,
    )


def _date(text: str) -> tuple[dt.date | None, int]:
    """Return day and year of a date; there is no day where only the year is known."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise Malformed(f"not a date: {text[:50]}")
    year, month, day = match.groups()
    try:
        return (dt.date(int(year), int(month), int(day or 1)) if month else None), int(year)
    except ValueError:
        raise Malformed(f"not a date: {text}") from None
