"""SciSciNet as a source: tables of papers, texts, references and fields, of version 1 or 2.

Its disruption (over the whole horizon, as Wu, Wang and Evans have it) and its atypicality go into the published_*
columns. Numbers about the papers are held in memory; texts and references are streamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tinsmith.data.abstracts import from_inverted_index
from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.progress import Progress
from tinsmith.data.sources.columns import flag_column, id_column, text_column
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.delimited import Rows
from tinsmith.data.sources.edge_columns import edge_columns
from tinsmith.data.sources.files import good_edges
from tinsmith.data.sources.kinds import Malformed, as_index
from tinsmith.data.sources.sciscinet.fields import PaperFields, read_paper_fields
from tinsmith.data.sources.sciscinet.papers import ColumnReader, read_journals, read_papers
from tinsmith.data.sources.sciscinet.tables import Table, TableFile, find_tables
from tinsmith.types.errors import DataError

KEEP = ("retracted", "paratext")
"""Kinds of papers excluded by default; the first reason counts."""
_OF_PAPERS = "_of_papers"  # after a column that both tables have
_SENTENCE = r"^(?s)(?P<title>[^\n\t]*?(?:[.?!](?:\s)|[\n\t]))\s*(?P<abstract>\S.*)$"
"""Pattern of a title and an abstract in one text: up to the end of the first sentence or line, and the rest."""


@dataclass(frozen=True, slots=True)
class SciSciNetSource:
    """Folder of tables."""

    folder: Path
    keep: frozenset[str] = frozenset()
    """Included kinds out of KEEP."""
    skip_bad: bool = False

    def description(self) -> SourceDescription:
        """Return the source's description for the card."""
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
        """Add papers with their texts in the order of these, then the papers without texts."""
        places = papers.select(pl.col("id").unique(maintain_order=True)).with_row_index("place")
        papers = papers.join(places, on="id", maintain_order="left")
        has_text = np.zeros(places.height, dtype=np.bool_)
        texts = tables.get(Table.DETAILS, tables[Table.PAPERS])
        progress.begin("texts", None)
        met = 0
        for found in _texts(texts, complaints, again=Table.DETAILS not in tables):
            joined = found.join(papers, on="id", maintain_order="left", suffix=_OF_PAPERS)
            met += joined.height
            has_text[joined["place"].to_numpy()] = True
            self._hand_over(joined, fields, complaints.writer)
            progress.advance(found.height)
        complaints.require_met(texts.name, met)
        rest = papers.filter(pl.Series(~has_text[papers["place"].to_numpy()]))
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
        ends = edge_columns(table.name, table.columns)
        if ends is None:
            raise DataError(
                f"{table.name}: its columns do not say which end of an edge cites and which is cited",
                field="columns",
                value=" ".join(table.columns)[:100],
                allowed="citing_paperid and cited_paperid",
            )
        citing, cited = table.columns[ends.citing], table.columns[ends.cited]
        complaints.writer.expect_edges(table.name, by_name=ends.by_name, checked=not self.skip_bad)
        with complaints.table(table.name) as tally:
            for rows in table.rows([citing, cited], complaints):
                frame = good_edges(table.name, rows, citing, cited, complaints)
                complaints.writer.add_edges(frame["citing"], frame["cited"])
                tally.read += frame.height
                progress.advance(rows.frame.height)


def _texts(table: TableFile, complaints: Complaints, *, again: bool) -> Iterator[pl.DataFrame]:
    """Yield frames of id, title, abstract, language and flags, of a table whose ids may have been read before."""
    paper_id = table.need("paperid", "id")
    both = table.find("papertitleabstract", "titleabstract", "titleandabstract", "titleabs", "textofpaper")
    title = table.find("title", "papertitle", "originaltitle", "displayname")
    abstract = table.find("abstract", "paperabstract", "abstracttext")
    index = None if abstract else table.find("abstractinvertedindex", "invertedindex", "indexedabstract")
    language = table.find("language", "languagecode")
    flags = {n: c for n in ("retracted", "paratext") if (c := table.find(f"is{n}"))}
    columns = [c for c in (paper_id, both, title, abstract, index, language, *flags.values()) if c]
    nothing = pl.lit(None, dtype=pl.String())
    with complaints.table(table.name, again=again) as tally:
        for rows in table.rows(list(dict.fromkeys(columns)), complaints):
            reader = ColumnReader(rows, table.name, complaints)
            ids = id_column(rows.frame[paper_id]).values if again else reader.read(paper_id, id_column)
            frame = pl.DataFrame({"id": ids})
            for name, column in (("title", title), ("abstract", abstract), ("language", language)):
                frame = frame.with_columns((reader.read(column, text_column) if column else nothing).alias(name))
            frame = frame.with_columns([reader.read(c, flag_column).alias(name) for name, c in flags.items()])
            if index:
                frame = frame.with_columns(_decoded(rows.frame[index], rows, table.name, complaints))
            if both:
                frame = _with_parts(frame, reader.read(both, text_column))
            tally.read += frame.height
            yield frame


def _with_parts(frame: pl.DataFrame, both: pl.Series) -> pl.DataFrame:
    """Split a text into missing title and abstract: its first sentence, and the rest."""
    text = pl.DataFrame({"both": both.str.strip_chars()})
    parts = text.select(pl.col("both").str.extract_groups(_SENTENCE)).unnest("both")
    whole = text.select(pl.when(pl.col("both") != "").then(pl.col("both"))).to_series()
    return frame.with_columns(
        title=pl.coalesce("title", parts["title"].str.strip_chars_end(), whole),
        abstract=pl.coalesce("abstract", parts["abstract"]),
    )


def _decoded(index: pl.Series, rows: Rows, file: str, complaints: Complaints) -> pl.Series:
    """Return the texts of inverted indexes in any form; an unreadable one is null, counted and reported."""
    texts: list[str | None] = []
    for number, value in zip(rows.numbers.tolist(), index.to_list(), strict=True):
        text = None
        try:
            found = as_index(value)
            text = None if found is None else from_inverted_index(found)
        except (Malformed, DataError) as error:
            complaints.no_abstract(file, number, str(error).splitlines()[0], str(value))
        texts.append(text)
    return pl.Series("abstract", texts, pl.String())
