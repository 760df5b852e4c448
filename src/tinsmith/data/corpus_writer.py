"""Writer of a corpus folder from papers and edges in any order, in bounded memory.

Input is spilled to a folder `.parts-*` beside the tables and sorted at the end; the tables are moved into place when
all of them are complete, the card last. The result does not depend on the order or the chunks of the input.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tinsmith.data.corpus_card import DROPPED, MISSING, CorpusCard, SourceDescription, write_card
from tinsmith.data.edge_check import EdgeCheck
from tinsmith.data.edge_table import EdgeTable
from tinsmith.data.last_year import last_year
from tinsmith.data.paper import Paper
from tinsmith.data.paper_table import PaperTable
from tinsmith.data.progress import Progress, Silent
from tinsmith.data.quarantine import QUARANTINE, Quarantine, QuarantineEntry
from tinsmith.data.row_order import order_rows
from tinsmith.data.schema import CARD, EDGES, METRICS, METRICS_CARD, OWN_LABELS, OWN_WORKS, PAPERS
from tinsmith.data.slices.card import SLICE
from tinsmith.data.spill import Spill
from tinsmith.models.staging import folder_lock
from tinsmith.types.disk import disk_full, is_full, writing
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of

_PARTS = ".parts-"
_MADE_FROM_A_CORPUS = (METRICS, METRICS_CARD, "card.html", OWN_WORKS, OWN_LABELS)


class CorpusWriter:
    """Context that collects papers and edges in chunks of any size and order, and writes the corpus at its end.

    After an error in the block nothing is written, and an existing corpus stays.
    """

    card: CorpusCard
    """Card of the corpus; set when the block has ended without an error."""

    def __init__(
        self,
        out: Path,
        *,
        source: SourceDescription,
        drop_forward: bool = False,
        strict: bool = False,
        force: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """`drop_forward` leaves out edges to later papers, `force` replaces a corpus, `strict` forbids quarantine.

        Raises:
            DataError: `out` is not empty and `force` is not set, or it is not a folder.
        """
        check_vacant(out, force=force)
        self._out = out
        self._source = source
        self._drop_forward = drop_forward
        self._strict = strict
        self._progress = progress or Silent()
        self._cut: float | None = None
        self._ends_by_changes = False
        self._check: EdgeCheck | None = None
        self._when_done: list[Callable[[], None]] = []
        self._dropped: Counter[str] = Counter(dict.fromkeys(DROPPED, 0))

    def __enter__(self) -> CorpusWriter:
        """Create the folder for the parts.

        Raises:
            DataError: another build writes to the folder.
        """
        self._made = not self._out.exists()
        self._out.mkdir(parents=True, exist_ok=True)
        lock = folder_lock(self._out)
        if lock is None:
            what, fix = f"another build writes to {self._out}", "wait for its end, or name another folder"
            raise DataError(what, field="out", fix=fix)
        self._unlock = weakref.finalize(self, os.close, lock)
        for left in self._out.glob(f"{_PARTS}*"):
            shutil.rmtree(left, ignore_errors=True)  # of a killed build
        self._parts = Path(tempfile.mkdtemp(prefix=_PARTS, dir=self._out))
        self._spill = Spill(self._parts, self._dropped)
        self._quarantine = Quarantine(self._parts / QUARANTINE, strict=self._strict)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the corpus, or nothing after an error; remove the parts in any case."""
        try:
            with writing(self._out):
                self._quarantine.close()
                if kind is None:
                    self._finish()
        finally:
            shutil.rmtree(self._parts, ignore_errors=True)
            if self._made:
                with suppress(OSError):  # it is not empty: it contains the corpus
                    self._out.rmdir()
            self._unlock()
            if error is not None and is_full(error):
                raise disk_full(error, self._out) from error

    @property
    def papers(self) -> int:
        """Number of papers added so far, including dropped ones: the next one's ordinal."""
        return self._spill.papers

    def add(self, papers: Sequence[Paper]) -> None:
        """Add records; `Paper.references` are their edges, and are dropped with a copy that is dropped."""
        self._spill.add_records(papers)

    def add_frame(
        self,
        papers: pl.DataFrame,
        citing: pl.Series | NDArray[np.integer] | None = None,
        cited: pl.Series | NDArray[np.integer] | None = None,
        *,
        bound: bool = False,
    ) -> None:
        """Add papers as columns, with edges.

        `papers`: any of PAPER_COLUMNS, `updated`, `excluded` (String, as in Paper); absent columns are null. `citing`,
        `cited` (same length): String series are ids, resolved like those of `add_edges`. Integers are faster: ordinals
        of papers, that is the number of papers added to this writer before that paper (by any call, including dropped
        ones). They may refer to later papers; one that no paper has, such as -1, is a dangling end. Ids on one side and
        ordinals on the other are allowed. `bound`: the edges are the reference lists of these very papers, `citing`
        their ordinals, and are dropped with a dropped copy; otherwise edges belong to ids.

        Raises:
            ValueError: unknown columns, or sides of unequal length.
        """
        self._spill.add_papers(papers)
        if citing is not None and cited is not None:
            self._spill.add_edges(pl.Series(citing), pl.Series(cited), bound=bound)

    def add_edges(self, citing: Sequence[str] | pl.Series, cited: Sequence[str] | pl.Series) -> None:
        """Add edges between ids; an unknown id makes the edge dangling.

        Raises:
            ValueError: sides of unequal length.
        """
        sides = (pl.Series(side, dtype=pl.String()) for side in (citing, cited))
        self._spill.add_edges(*sides, bound=False)

    def quarantine(self, file: str, line: int, reason: str, text: str) -> None:
        """Set a malformed line aside.

        Raises:
            DataError: the writer is strict; the message names file:line.
        """
        self._quarantine.put(QuarantineEntry(file=file, line=line, reason=reason, text=text))

    def count(self, name: str, n: int = 1) -> None:
        """Increase one of the card's `dropped` counters."""
        self._dropped[name] += n

    @property
    def dropped(self) -> Counter[str]:
        """Current `dropped` counters of the card."""
        return self._dropped.copy()

    def settle(self) -> None:
        """Process the papers so far, counting the dropped ones."""
        self._spill.settle()

    def expect_edges(self, table: str, *, by_name: bool, checked: bool) -> None:
        """Check edges between ids against the papers at the end (`EdgeCheck`)."""
        self._check = EdgeCheck(table, by_name) if checked else None

    def recommend(self, cut: float) -> None:
        """Set the card's `thresholds`: the cut on |CD| for which a synthetic preset is tuned."""
        self._cut = cut

    def end_before_last_change(self) -> None:
        """Let the corpus end with the year before its records' last change, whatever the years of its papers."""
        self._ends_by_changes = True

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the corpus is in place."""
        self._when_done.append(callback)

    def _finish(self) -> None:
        self._progress.begin("ordering papers", 1)
        self._spill.flush()
        order = order_rows(self._spill)
        self._dropped.update(order.dropped)
        if not order.keys.height:
            raise self._nothing()
        edges = EdgeTable(self._spill, order, drop_forward=self._drop_forward, check=self._check)
        self._progress.begin("writing edges", edges.steps)
        edges.write(self._parts / EDGES, self._progress.advance)
        self._dropped.update(edges.dropped)
        papers = PaperTable(self._spill, order)
        self._progress.begin("writing papers", papers.steps)
        papers.write(self._parts / PAPERS, self._progress.advance)
        years = dict(order.keys.group_by("year").len().sort("year").iter_rows())
        end = last_year(years, order.changed)
        if self._ends_by_changes and order.changed is not None:
            end = max(min(years), order.changed - 1)  # the year of the change itself is not over
        card = CorpusCard(
            papers=order.keys.height,
            edges=edges.edges,
            forward_edges=edges.forward,
            quarantined=self._quarantine.count,
            dropped=dict(self._dropped),
            years=years,
            last_year=end,
            later_papers=sum(count for year, count in years.items() if year > end),
            missing={name: papers.missing[name] for name in MISSING},
            source=self._source,
            thresholds=self._cut,
            fingerprint=sha256_of({"papers": papers.digest.sums(), "edges": edges.sha256}),
        )
        write_card(card, self._parts / CARD)
        self._publish()
        self.card = card
        for callback in self._when_done:
            callback()

    def _nothing(self) -> DataError:
        lost = [f"{count:,} {name}" for name, count in sorted(self._dropped.items()) if count]
        first = self._quarantine.first
        if first is not None:
            where = f"{first.file}:{first.line}: {first.reason}"
            lost.append(f"{self._quarantine.count:,} malformed, the first at {where}")
        return DataError(
            f"no paper is left for the corpus: {', '.join(lost) or 'the source has none'}",
            field=f"--source {self._source.kind.value}",
            value=", ".join(f"{name}={value}" for name, value in self._source.settings.items()),
            fix="correct the source, or name another one",
        )

    def _publish(self) -> None:
        """Move the files into place; the card is removed first and moved last, since it makes a folder a corpus."""
        (self._out / CARD).unlink(missing_ok=True)
        for name in (QUARANTINE, *_MADE_FROM_A_CORPUS):
            (self._out / name).unlink(missing_ok=True)
        for name in (PAPERS, EDGES, QUARANTINE, CARD):
            with suppress(FileNotFoundError):  # there is no quarantine file without malformed lines
                os.replace(self._parts / name, self._out / name)


def check_vacant(out: Path, *, force: bool) -> None:
    """Check that a corpus may be written to `out`.

    Raises:
        DataError: it is not empty and `force` is not set, it contains a slice, or it is not a folder.
    """
    if out.exists() and not out.is_dir():
        raise DataError(f"{out} is not a folder", field="out", fix="name another one")
    if (out / SLICE).exists():
        raise DataError(f"{out} holds a slice", field="out", fix="name another folder")
    if not force and out.exists() and any(not f.name.startswith(".") for f in out.iterdir()):
        raise DataError(
            f"{out} is not empty", field="out", fix="name another folder, or replace the corpus in it with --force"
        )
