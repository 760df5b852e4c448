"""Interface of every source of a corpus, and the build of a corpus folder from one."""

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
        """Hand everything to `writer`.

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
    """Read `source` into the corpus folder `out`; nothing is written unless all of it could be.

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
    """Hold the cycle collector: records are trees, counting frees them, and walking them all costs a third more."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
