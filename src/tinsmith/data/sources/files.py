"""A source of two files: papers as JSON records, and edges as delimited lines of a citing and a cited id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import msgspec
import polars as pl

from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.paper import Paper
from tinsmith.data.progress import Progress
from tinsmith.data.sources.columns import id_column
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Delimited, Rows, read_layout
from tinsmith.data.sources.edge_columns import EdgeColumns, edge_columns
from tinsmith.data.sources.journal import journal_name
from tinsmith.data.sources.json_blocks import read_json_blocks
from tinsmith.data.sources.json_text import decoded, plain
from tinsmith.data.sources.kinds import Malformed, as_count, as_date, as_id, as_text, as_texts, as_year
from tinsmith.data.sources.lines import Block

_COMMENTS = (b"#", b"%")
_TWO_IDS = "two ids a line, citing and cited, between tabs, commas or semicolons"
_JSON = 'one JSON object a line, such as {"id": "a", "year": 2001, "title": "T"}'


class _Line(msgspec.Struct, gc=False):
    """A record of the papers; other keys are not read."""

    id: str | int | None = None
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
_TEXTS = ("title", "abstract", "venue", "journal_ref", "field", "type", "language")


@dataclass(frozen=True, slots=True)
class FilesSource:
    """Papers and edges in a form that any tool can write; ids are strings and stay as they are."""

    papers: Path
    edges: Path
    skip_bad: bool = False

    def description(self) -> SourceDescription:
        """Return what the card says."""
        return SourceDescription(kind=SourceKind.FILES, settings={"papers": self.papers.name, "edges": self.edges.name})

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Read the papers, then the edges."""
        complaints = Complaints(writer, self.skip_bad)
        progress.begin("papers read", None)
        name = self.papers.name
        with complaints.table(name, allowed=_JSON, of_papers=True) as tally, complaints.until_damage():
            for block in read_json_blocks(self.papers, name):
                papers = list(self._read(block, complaints))
                writer.add(papers)
                tally.read += len(papers)
                progress.advance(len(papers))
        progress.begin("edges read", None)
        self._read_edges(writer, complaints, progress)

    def _read(self, block: Block, complaints: Complaints) -> Iterator[Paper]:
        for number, line in block.lines():
            lost: list[str] = []
            try:
                yield _paper(line, lost)
            except Malformed as error:
                shown = line.decode("utf-8", "replace")
                complaints.malformed(self.papers.name, number, str(error), shown)
            for counter in lost:
                complaints.lost_value(counter, self.papers.name, number, line[:500].decode("utf-8", "replace"))

    def _read_edges(self, writer: CorpusWriter, complaints: Complaints, progress: Progress) -> None:
        name = self.edges.name
        with complaints.table(name, allowed=_TWO_IDS) as tally, complaints.until_damage():
            layout = read_layout(self.edges, name, _COMMENTS)
            named = edge_columns(name, layout.first)
            ends = named or edge_columns(name, layout.comment) or EdgeColumns(0, 1, by_name=False)
            columns = [str(place) for place in range(max(2, len(layout.first), ends.citing + 1, ends.cited + 1))]
            table = Delimited(
                self.edges, name, columns, layout, header=named is not None, comments=_COMMENTS, full=len(columns) == 2
            )
            writer.expect_edges(name, by_name=ends.by_name, checked=not self.skip_bad)
            for rows in table.rows(complaints):
                frame = good_edges(name, rows, columns[ends.citing], columns[ends.cited], complaints)
                writer.add_edges(frame["citing"], frame["cited"])
                tally.read += frame.height
                progress.advance(rows.frame.height)


def good_edges(file: str, rows: Rows, citing: str, cited: str, complaints: Complaints) -> pl.DataFrame:
    """Return the edges (`citing`, `cited`) of some rows; those that lack an end are set aside."""
    ends = {"citing": id_column(rows.frame[citing]), "cited": id_column(rows.frame[cited])}
    frame = pl.DataFrame({name: end.values for name, end in ends.items()})
    gaps = frame.select(pl.any_horizontal(pl.all().is_null() | (pl.all() == ""))).to_series()
    if not gaps.any():
        return frame
    for place in gaps.arg_true().to_list():
        shown = "\t".join(str(rows.frame[column][place]) for column in (citing, cited))
        is_bad = any(end.bad[place] for end in ends.values())
        reason = "an end is no id" if is_bad else "an end is missing"
        complaints.malformed(file, int(rows.numbers[place]), reason, shown)
    return frame.filter(~gaps)


def _paper(line: bytes, lost: list[str] | None = None) -> Paper:
    """Read a record; `lost` gets the counters of values that cannot be read.

    Raises:
        Malformed: it is no object, or its id or year cannot be read.
    """
    lost = [] if lost is None else lost
    try:
        record = decoded(_DECODER, line)
    except msgspec.ValidationError:
        record = _mended(line, lost)
    date, year = None, as_year(record.year)
    if record.date:
        try:
            date, dated = as_date(record.date, year) or (None, year)
            year = dated if year is None else year
        except Malformed:
            if year is None:
                raise
            lost.append("bad_dates")
    name = as_id(record.id)
    if name is None:
        raise Malformed("no id")
    journal = journal_name(record.journal_ref) if record.journal_ref else None
    return Paper(
        id=name,
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


def _mended(line: bytes, lost: list[str]) -> _Line:
    """Read a record whose values have other types."""
    values = plain(line)
    if not isinstance(values, dict):
        raise Malformed("not a JSON object")
    record = cast("Mapping[str, object]", values)
    year = as_year(record.get("year"))
    found = _Line(id=as_id(record.get("id")), year=year)
    try:
        dated = as_date(record.get("date"), year)
    except Malformed:
        if year is None:
            raise
        lost.append("bad_dates")
    else:
        found.date = None if dated is None else str(dated[0] or f"{dated[1]:04}")
    for name in _TEXTS:
        try:
            setattr(found, name, as_text(record.get(name)))
        except Malformed:
            lost.append("bad_values")
    for name, kind in (("concepts", as_texts), ("cited_by_count", as_count)):
        try:
            setattr(found, name, kind(record.get(name)))
        except Malformed:
            lost.append("bad_values")
    return found
