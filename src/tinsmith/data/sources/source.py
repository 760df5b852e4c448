"""Interface of all sources of a corpus, and the build of a corpus folder from one."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tinsmith.data.corpus_card import CorpusCard, SourceDescription
from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.progress import Progress, Silent


class Source(Protocol):
    """Raw data that can be read once, from beginning to end."""

    def description(self) -> SourceDescription:
        """Return the source's description for the card; no paths."""
        ...

    def feed(self, writer: CorpusWriter, progress: Progress) -> None:
        """Feed all papers and edges to `writer`.

        Raises:
            DataError: it cannot be read.
        """
        ...


def build_corpus(
    source: Source,
    out: Path,
    *,
    drop_forward: bool = False,
    strict: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> CorpusCard:
    """Read `source` into the corpus folder `out`, completely or not at all.

    Raises:
        DataError: the source cannot be read, has a malformed line (`strict`), or `out` is taken (without `force`).
    """
    reporter = progress or Silent()
    with (
        CorpusWriter(
            out, source=source.description(), drop_forward=drop_forward, strict=strict, force=force, progress=reporter
        ) as writer,
        _no_cycle_search(),
    ):
        source.feed(writer, reporter)
    return writer.card


@contextmanager
def _no_cycle_search() -> Generator[None, None, None]:
    """Pause the cycle collector: records are trees, freed by reference counts, and it takes a third more time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
