"""Handling of unreadable data: it is quarantined and counted, and too much of it ends the build."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.losses import Cause, Tally, loss, require_few, require_values
from tinsmith.data.sources.lines import DamagedFile

LINE_COUNTERS = {"no_id": "without an id", "no_year": "without a year"}
"""Counters of the card for lost papers."""
VALUE_COUNTERS = {
    "bad_dates": "dates",
    "bad_abstracts": "abstracts",
    "bad_references": "references",
    "bad_values": "counts, scores or texts",
}
"""Counters of the card for values lost from papers that stay."""


@dataclass(slots=True)
class Complaints:
    """Collector of complaints for a corpus, table by table."""

    writer: CorpusWriter
    skip_bad: bool = False
    """True to use the part of a file before its damage, and any rest of a table, however small."""
    _tally: Tally = field(default_factory=lambda: Tally("input"))
    _values: dict[str, Cause] = field(default_factory=dict[str, Cause])
    _again: bool = False

    @contextmanager
    def table(
        self,
        name: str,
        unit: str = "lines",
        allowed: str | None = None,
        *,
        of_papers: bool = False,
        again: bool = False,
    ) -> Generator[Tally, None, None]:
        """Read a table in the body, which counts its records in the tally.

        With `of_papers`, papers that the corpus drops count as lost. With `again`, records quarantined before are not
        quarantined a second time.

        Raises:
            DataError: too much of it was lost.
        """
        self._tally, self._values, self._again = Tally(name, unit, allowed), {}, again
        before = self.writer.dropped
        yield self._tally
        if of_papers:
            self.writer.settle()
        after = self.writer.dropped
        for counter, cause in LINE_COUNTERS.items() if of_papers else ():
            if count := after[counter] - before[counter]:
                self._tally.read -= count
                self._tally.lose(cause, count, where=counter.removeprefix("no_"))
        if not self.skip_bad:
            require_few(self._tally)
            require_values(name, self._tally.read, self._values)

    def require_met(self, table: str, met: int) -> None:
        """Check that a record of the latest table belongs to a paper.

        Raises:
            DataError: none does, and `skip_bad` is not set.
        """
        if self._tally.read and not met and not self.skip_bad:
            raise loss(f"{table}: none of {self._tally.read:,} records belongs to a paper: ids do not meet", Cause())

    def malformed(self, file: str, line: int, reason: str, text: str, lines: int = 1) -> None:
        """Quarantine a record that spans this many lines.

        Raises:
            DataError: the build is strict.
        """
        self._tally.lose(reason.partition(": ")[0], lines, where=f"{file}:{line}", text=text)
        if not self._again:
            self.writer.quarantine(file, line, reason, text)

    def no_abstract(self, file: str, line: int, reason: str, text: str) -> None:
        """Count a record that stays without its unreadable abstract.

        Raises:
            DataError: the build is strict.
        """
        self.lost_value("bad_abstracts", file, line, text)
        self.writer.quarantine(file, line, f"no abstract: {reason}", text)

    def lost_value(self, counter: str, file: str, line: int, text: str, count: int = 1) -> None:
        """Count unreadable values of a record that stays; the counter is one of VALUE_COUNTERS."""
        self.writer.count(counter, count)
        known = self._values.setdefault(VALUE_COUNTERS[counter], Cause(0, f"{file}:{line}", text))
        known.count += count

    @contextmanager
    def until_damage(self) -> Generator[None, None, None]:
        """Read a file in the body, which ends at damage, without an error if `skip_bad` is set.

        Raises:
            DamagedFile: the file is damaged, and `skip_bad` is not set.
        """
        try:
            yield
        except DamagedFile as error:
            if not self.skip_bad:
                raise
            if not self._again:
                self.writer.count("bad_files")
                self.writer.quarantine(error.name, error.line, error.why, error.text)
