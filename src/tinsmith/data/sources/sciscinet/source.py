"""SciSciNet as a source: tables of papers, texts, references and fields, of version 1 or 2.

Its disruption (over the whole horizon, as Wu, Wang and Evans have it) and its atypicality go into the published_*
columns. What is numbers about the papers is held in memory; texts and references pass through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

from tinsmith.data.abstracts import from_inverted_index
from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.progress import Progress
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Rows
from tinsmith.data.sources.openalex.mending import inverted_index
from tinsmith.data.sources.sciscinet.fields import PaperFields, read_paper_fields
from tinsmith.data.sources.sciscinet.papers import read_journals, read_papers, yes
from tinsmith.data.sources.sciscinet.tables import Table, TableFile, find_tables
from tinsmith.types.errors import DataError

KEEP = ("retracted", "paratext")
"""What is left out unless it is asked for; the first reason counts."""
_OF_PAPERS = "_of_papers"  # after a column that both tables have


@dataclass(frozen=True, slots=True)
class SciSciNetSource:
    """A folder of tables."""

    folder: Path
    keep: frozenset[str] = frozenset()
    """Of KEEP, what is not left out."""
    skip_bad: bool = False

    def description(self) -> SourceDescription:
        """What the card says."""
        tables = find_tables(self.folder)
        names = " ".join(sorted(file.name for file in tables.values()))
        return SourceDescription(
            kind=SourceKind.SCISCINET, settings={"tables": names, "keep": " ".join(sorted(self.keep))}
        )

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Read all tables."""
        tables = find_tables(self.folder)
        complaints = Complaints(writer, self.skip_bad)
        progress.begin("papers", None)
        journals = read_journals(tables, complaints)
        papers = read_papers(tables, journals, complaints, progress)
        complaints.writer.count("no_id", papers["id"].null_count())
        papers = papers.drop_nulls("id")
        links = tables.get(Table.PAPER_FIELDS)
        fields = None
        if links is not None:
            progress.begin("fields", None)
            names = tables.get(Table.FIELDS)
            ids = papers["id"].unique(maintain_order=True)
            fields = read_paper_fields(ids, links, names, complaints)
        self._add_papers(tables, papers, fields, complaints, progress)
        progress.begin("references", None)
        self._add_references(tables[Table.REFERENCES], complaints, progress)

    def _add_papers(
        self,
        tables: Mapping[Table, TableFile],
        papers: pl.DataFrame,
        fields: PaperFields | None,
        complaints: Complaints,
        progress: Progress,
    ) -> None:
        """Hand over papers with their texts as these come, then the papers that have none."""
        places = papers.select(pl.col("id").unique(maintain_order=True)).with_row_index("place")
        papers = papers.join(places, on="id", maintain_order="left")
        seen = np.zeros(places.height, dtype=np.bool_)
        texts = tables.get(Table.DETAILS, tables[Table.PAPERS])
        progress.begin("texts", None)
        for found in _texts(texts, complaints):
            joined = found.join(papers, on="id", maintain_order="left", suffix=_OF_PAPERS)
            seen[joined["place"].to_numpy()] = True
            self._hand_over(joined, fields, complaints.writer)
            progress.advance(found.height)
        rest = papers.filter(pl.Series(~seen[papers["place"].to_numpy()]))
        for piece in rest.iter_slices(1 << 16):
            self._hand_over(piece, fields, complaints.writer)

    def _hand_over(self, frame: pl.DataFrame, fields: PaperFields | None, writer: CorpusWriter) -> None:
        if fields is not None:
            frame = frame.hstack(fields.of(frame["place"].to_numpy()))
        flags = {name: [column for column in (name, f"{name}{_OF_PAPERS}") if column in frame.columns] for name in KEEP}
        reason = pl.lit(None, dtype=pl.String())
        for name in KEEP:
            if flags[name] and name not in self.keep:
                flagged = pl.any_horizontal(flags[name])
                reason = reason.fill_null(pl.when(flagged).then(pl.lit(name)))
        frame = frame.with_columns(excluded=reason)
        other_language = f"language{_OF_PAPERS}"
        if other_language in frame.columns:
            frame = frame.with_columns(pl.coalesce("language", other_language))
        extra = ["place", *flags[KEEP[0]], *flags[KEEP[1]], other_language]
        writer.add_frame(frame.drop(extra, strict=False))

    def _add_references(self, table: TableFile, complaints: Complaints, progress: Progress) -> None:
        citing = table.need("citingpaperid", "citing", "paperid")
        cited = table.need("citedpaperid", "cited", "referencedpaperid")
        for rows in table.rows([citing, cited], complaints):
            frame = rows.frame.cast(pl.String)
            gaps = frame[citing].is_null() | frame[cited].is_null()
            for number in rows.numbers[gaps.to_numpy()].tolist():
                complaints.malformed(table.name, number, "an end is missing", "")
            frame = frame.filter(~gaps)
            complaints.writer.add_edges(frame[citing], frame[cited])
            progress.advance(rows.frame.height)


def _texts(table: TableFile, complaints: Complaints) -> Iterator[pl.DataFrame]:
    """Yield frames of id, title, abstract, language and flags."""
    paper_id = table.need("paperid", "id")
    title = table.find("title", "papertitle", "originaltitle")
    abstract = table.find("abstract", "abstracttext")
    index = None if abstract else table.find("abstractinvertedindex", "invertedindex")
    language = table.find("language", "languagecode")
    flags = {n: c for n in ("retracted", "paratext") if (c := table.find(f"is{n}"))}
    columns = [c for c in (paper_id, title, abstract, index, language, *flags.values()) if c]
    for rows in table.rows(columns, complaints):
        frame = rows.frame
        chosen = {
            "id": pl.col(paper_id).cast(pl.String),
            "title": pl.col(title) if title else pl.lit(None, dtype=pl.String()),
            "abstract": pl.col(abstract) if abstract else pl.lit(None, dtype=pl.String()),
            "language": pl.col(language) if language else pl.lit(None, dtype=pl.String()),
            **{name: yes(column) for name, column in flags.items()},
        }
        found = frame.select(**chosen)
        if index:
            found = found.with_columns(_decoded(frame[index], rows, table.name, complaints))
        yield found


def _decoded(index: pl.Series, rows: Rows, file: str, complaints: Complaints) -> pl.Series:
    """Texts of inverted indexes, however they are stored; one that cannot be read is null, counted and told."""
    texts: list[str | None] = []
    for number, value in zip(rows.numbers.tolist(), index.to_list(), strict=True):
        text = None
        if value is not None:
            found = inverted_index(value)
            try:
                if found is None:
                    raise DataError("an abstract's index cannot be read")
                text = from_inverted_index(cast("dict[str, list[int]]", found))
            except DataError as error:
                complaints.no_abstract(file, number, error.what, str(value))
        texts.append(text)
    return pl.Series("abstract", texts, pl.String())
