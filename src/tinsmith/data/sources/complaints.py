"""What happens to data that cannot be read: records are set aside, a damaged file ends the build or is cut."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from tinsmith.data.corpus_writer import CorpusWriter
from tinsmith.data.sources.lines import DamagedFile


@dataclass(frozen=True, slots=True)
class Complaints:
    """Takes complaints for a corpus."""

    writer: CorpusWriter
    skip_bad: bool = False
    """Whether what stands before the damage of a file counts."""

    def malformed(self, file: str, line: int, reason: str, text: str) -> None:
        """Set a record aside.

        Raises:
            DataError: the build is strict.
        """
        self.writer.quarantine(file, line, reason, text)

    def no_abstract(self, file: str, line: int, reason: str, text: str) -> None:
        """Say that a record stays without its abstract, which cannot be read.

        Raises:
            DataError: the build is strict.
        """
        self.writer.count("bad_abstracts")
        self.writer.quarantine(file, line, f"no abstract: {reason}", text)

    @contextmanager
    def until_damage(self) -> Generator[None, None, None]:
        """Let the body read a file; where it is damaged the body ends, without an error if that may be.

        Raises:
            DamagedFile: the file is damaged, and that is not to be skipped.
        """
        try:
            yield
        except DamagedFile as error:
            if not self.skip_bad:
                raise
            self.writer.count("bad_files")
            self.writer.quarantine(error.name, error.line, error.why, error.text)
