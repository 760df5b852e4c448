"""OpenAlex as a source: a copy of the snapshot, saved pages of the API, or the API itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.progress import Progress
from tinsmith.data.sources.complaints import Complaints
from tinsmith.data.sources.openalex.api import ApiQuery, Download
from tinsmith.data.sources.openalex.reader import OpenAlexReader
from tinsmith.data.sources.openalex.record import Keep
from tinsmith.data.sources.openalex.snapshot import find_snapshot

PAGES = ".pages"
"""Folder of an unfinished download, inside the corpus's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlexChoices:
    """Selection of records and of their parts."""

    keep: frozenset[Keep] = frozenset()
    """Included kinds of works that are excluded by default."""
    graph_only: bool = False
    """True for years, venues and references only, without texts."""
    skip_bad: bool = False
    """True to use the part of a damaged file before its damage."""

    def reader(self, writer: CorpusWriter, progress: Progress) -> OpenAlexReader:
        """Return a reader with this selection."""
        progress.begin("records", None)
        complaints = Complaints(writer, self.skip_bad)
        return OpenAlexReader(complaints, progress, self.keep, self.graph_only)

    def description(self, source: str, **more: str) -> SourceDescription:
        """Return the source's description for the card."""
        kinds = " ".join(sorted(self.keep))
        return SourceDescription(
            kind=SourceKind.OPENALEX, settings={"input": source, "keep": kinds, "graph_only": self.graph_only, **more}
        )


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Folder in the form that `aws s3 sync` creates."""

    folder: Path
    choices: OpenAlexChoices

    def description(self) -> SourceDescription:
        """Return the source's description for the card."""
        return self.choices.description("snapshot", layout=find_snapshot(self.folder).layout)

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Read all parts."""
        parts = find_snapshot(self.folder).parts
        reader = self.choices.reader(writer, progress)
        with reader.works():
            for part in parts:
                reader.read(part.path, part.name, part.partition)


@dataclass(frozen=True, slots=True)
class PagesSource:
    """Files with pages, lists of works or single works."""

    files: tuple[Path, ...]
    choices: OpenAlexChoices

    def description(self) -> SourceDescription:
        """Return the source's description for the card."""
        return self.choices.description("pages")

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Read all files."""
        absolute = [Path(os.path.abspath(path)) for path in self.files]
        root = Path(os.path.commonpath([path.parent for path in absolute]))
        reader = self.choices.reader(writer, progress)
        with reader.works():
            for path in sorted(absolute):
                reader.read(path, path.relative_to(root).as_posix())


@dataclass(frozen=True, slots=True)
class ApiSource:
    """Live API; pages are stored in the corpus's folder until the corpus is complete, so that it can be resumed."""

    query: ApiQuery
    out: Path
    choices: OpenAlexChoices

    def description(self) -> SourceDescription:
        """Return the source's description for the card."""
        return self.choices.description("api", filter=self.query.filter)

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Download, then read the pages."""
        download = Download(self.query, self.out / PAGES)
        pages = download.run(progress)
        if download.missing:
            writer.count("works_not_sent", download.missing)
        reader = self.choices.reader(writer, progress)
        with reader.works():
            for path in pages:
                reader.read(path, path.name)
        writer.when_done(download.remove)
