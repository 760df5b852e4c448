"""Source of two files: papers as JSON records, and edges as delimited lines of a citing and a cited id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.losses import Cause, loss
from tinsmith.data.paper import Paper
from tinsmith.data.progress import Progress
from tinsmith.data.sources.columns import id_column
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Delimited, Layout, Rows, read_layout
from tinsmith.data.sources.edge_columns import EdgeColumns, edge_columns
from tinsmith.data.sources.json_blocks import read_json_blocks
from tinsmith.data.sources.kinds import Malformed
from tinsmith.data.sources.lines import Block
from tinsmith.data.sources.paper_record import check_keys, require_json
from tinsmith.data.sources.paper_record import paper_of as _paper
from tinsmith.types.errors import DataError

_COMMENTS = (b"#", b"%")
_TWO_IDS = "two ids a line, citing and cited, between tabs, commas or semicolons"
_COUNTED = 20
"""Number of rows beyond which consecutive numbers are row numbers, not ids."""
_JSON = 'one JSON object a line, {"id": "a", "year": 2001, "title": "T"}; for the year "date": "2001-05-31" will do'


@dataclass(frozen=True, slots=True)
class FilesSource:
    """Papers and edges in a form that any tool can write; ids are strings and stay unchanged."""

    papers: Path
    edges: Path
    skip_bad: bool = False

    def description(self) -> SourceDescription:
        """Return the source's description for the card."""
        return SourceDescription(kind=SourceKind.FILES, settings={"papers": self.papers.name, "edges": self.edges.name})

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Read the papers, then the edges."""
        complaints = Complaints(writer, self.skip_bad)
        progress.begin("reading papers", None)
        name = self.papers.name
        with complaints.table(name, allowed=_JSON, of_papers=True) as tally, complaints.until_damage():
            blocks = read_json_blocks(self.papers, name)
            for block in blocks if self.skip_bad else check_keys(blocks, name):
                if block.first == 1:
                    require_json(block, name)
                papers = list(self._read(block, complaints))
                writer.add(papers)
                tally.read += len(papers)
                progress.advance(len(papers))
        progress.begin("reading edges", None)
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
            ends = named or _commented(name, layout) or EdgeColumns(0, 1, by_name=False)
            columns = [str(place) for place in range(max(2, len(layout.first), ends.citing + 1, ends.cited + 1))]
            table = Delimited(
                self.edges, name, columns, layout, header=named is not None, comments=_COMMENTS, full=len(columns) == 2
            )
            counted = named is None and ends.citing == 0 and len(columns) > 2 and not self.skip_bad
            writer.expect_edges(name, by_name=ends.by_name, checked=not self.skip_bad)
            for rows in table.rows(complaints):
                if counted and _counts_rows(rows.frame["0"]):
                    raise loss(
                        f"{name}: the first of {len(columns)} columns counts the rows, and no column has a name",
                        Cause(1, f"{name}:{layout.line}", layout.separator.join(layout.first)),
                        allowed='a first line that says which columns are ids: "citing,cited"',
                    )
                counted = False
                frame = good_edges(name, rows, columns[ends.citing], columns[ends.cited], complaints)
                writer.add_edges(frame["citing"], frame["cited"])
                tally.read += frame.height
                progress.advance(rows.frame.height)


def _commented(table: str, layout: Layout) -> EdgeColumns | None:
    """Return the columns of the ends by the comment above them, unless it is no header but prose."""
    if len(layout.comment) > len(layout.first):
        return None
    with suppress(DataError):  # it names one end only
        return edge_columns(table, layout.comment)
    return None


def _counts_rows(values: pl.Series) -> bool:
    """Return True for an export's row numbers in place of ids."""
    numbers = values.cast(pl.Int64, strict=False).drop_nulls()
    return len(numbers) >= _COUNTED and numbers[0] in (0, 1) and (numbers.diff().drop_nulls() == 1).all()


def good_edges(file: str, rows: Rows, citing: str, cited: str, complaints: Complaints) -> pl.DataFrame:
    """Return the edges (`citing`, `cited`) of some rows; those without an end are quarantined."""
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
