"""Synthetic world as a source: papers, references and texts for the corpus writer, chunk by chunk.

A latent cause determines a paper's citations and colours its words. The label follows from the CD index of the graph:
this module does not use labels. All decisions use integers and correctly rounded arithmetic, so that a preset and a
seed give the same bytes on every machine.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.abstracts import from_inverted_index
from tinsmith.data.corpus_card import SourceDescription, SourceKind
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.sources.world.citations import Citations, draw_citations
from tinsmith.data.sources.world.dirt import Dirt, Edges, draw_dirt
from tinsmith.data.sources.world.papers import WorldPapers, draw_papers
from tinsmith.data.sources.world.records import Records
from tinsmith.data.sources.world.spec import PRESETS, Preset, WorldSpec
from tinsmith.data.sources.world.text import TextWriter

CHUNK: Final = 8_192
"""Papers per chunk; the corpus does not depend on it."""
_COUNTED_AT_ONCE: Final = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """Counts of a world's records, which the corpus's card must match."""

    papers: int
    clean_edges: int
    """Distinct edges between two papers of the world, without self-loops; forward ones included."""
    forward_edges: int
    dangling_edges: int
    duplicate_edges: int
    self_loops: int
    lost_references: int
    """Papers whose record has lost its references."""


@dataclass(frozen=True, slots=True)
class SyntheticSource:
    """World as a source of a corpus: a preset, or custom sizes."""

    world: Preset | WorldSpec
    seed: int = 0

    def description(self) -> SourceDescription:
        """Return the settings of the world; equal descriptions give equal corpora."""
        if isinstance(self.world, Preset):
            chosen: dict[str, str | int | bool] = {"preset": self.world.value}
        else:
            sizes = dataclasses.asdict(self.world).items()
            chosen = {name: size if isinstance(size, int) else str(size) for name, size in sizes}
        return SourceDescription(kind=SourceKind.SYNTHETIC, settings=chosen | {"seed": self.seed})

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Generate the world and feed it to `writer`."""
        build_synthetic(self.world, self.seed, writer, progress=progress)


def build_synthetic(
    world: Preset | WorldSpec, seed: int, writer: CorpusWriter, *, chunk: int = CHUNK, progress: Progress | None = None
) -> Emitted:
    """Generate a world and feed it to `writer`, with its cut on the CD index.

    `cited_by_count` is the in-degree among clean edges, forward ones included. Memory: about ten bytes
    for each reference, a hundred for each paper, and one chunk of texts.
    """
    reporter = progress or Silent()
    spec = PRESETS[world] if isinstance(world, Preset) else world
    reporter.begin("references", None)
    papers = draw_papers(spec, seed)
    citations = draw_citations(spec, papers, seed)
    dirt = draw_dirt(papers, citations, seed)
    records = Records(spec, papers, seed)
    text = TextWriter(spec, papers, seed)
    cited_by = _in_degrees(citations, dirt)
    writer.recommend(spec.cut)
    reporter.begin("texts", spec.papers)
    for start in range(0, spec.papers, chunk):
        stop = min(start + chunk, spec.papers)
        titles: list[str] = []
        abstracts: list[str | None] = []
        for paper in text.texts(start, stop):
            titles.append(paper.title)
            abstracts.append(from_inverted_index(paper.abstract))
        frame = records.frame(start, stop).with_columns(
            pl.Series("title", titles),
            pl.Series("abstract", abstracts),
            pl.Series("cited_by_count", cited_by[start:stop]),
        )
        edges = _edges(citations, dirt, start, stop)
        writer.add_frame(frame, edges.citing, edges.cited)
        reporter.advance(stop - start)
    return _emitted(papers, citations, dirt)


def _in_degrees(citations: Citations, dirt: Dirt) -> NDArray[np.int64]:
    count = len(citations.offsets) - 1
    degrees = np.bincount(dirt.forward.cited, minlength=count)
    for start in range(0, len(citations.cited), _COUNTED_AT_ONCE):
        some = citations.cited[start : start + _COUNTED_AT_ONCE]
        degrees += np.bincount(some, minlength=count)
    return degrees


def _edges(citations: Citations, dirt: Dirt, start: int, stop: int) -> Edges:
    """Return all edges of the records `start` .. `stop`, as numbers of papers; dirt comes last."""
    offsets = citations.offsets[start : stop + 1]
    citing = np.repeat(np.arange(start, stop), np.diff(offsets))
    clean = Edges(citing, citations.cited[offsets[0] : offsets[-1]].astype(np.int64))
    kinds = (dirt.dangling, dirt.duplicate, dirt.forward, dirt.self_loop)
    parts = [clean, *(kind.of(start, stop) for kind in kinds)]
    return Edges(np.concatenate([part.citing for part in parts]), np.concatenate([part.cited for part in parts]))


def _emitted(papers: WorldPapers, citations: Citations, dirt: Dirt) -> Emitted:
    return Emitted(
        papers=len(papers.field),
        clean_edges=len(citations.cited) + len(dirt.forward),
        forward_edges=len(dirt.forward),
        dangling_edges=len(dirt.dangling),
        duplicate_edges=len(dirt.duplicate),
        self_loops=len(dirt.self_loop),
        lost_references=int((~papers.recorded).sum()),
    )
