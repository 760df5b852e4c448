"""Quarantine of unreadable records: one JSON line each with file, line, reason and the text itself.

File names are relative to the source, so that the same data give the same `quarantine.jsonl` in any folder.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tinsmith.types.errors import DataError

QUARANTINE = "quarantine.jsonl"
MAX_TEXT = 500
"""Most characters stored of a malformed line."""


class QuarantineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `quarantine.jsonl`."""

    file: str
    line: int
    """Line number from 1; for a file without lines, the number of the record."""
    reason: str
    text: str


def set_aside(file: Path) -> str:
    """Return a message that names a `quarantine.jsonl` and its first entry."""
    with file.open("rb") as lines:
        first = msgspec.json.decode(next(lines), type=QuarantineEntry)
    return f"set aside in {file}, the first: {first.file}:{first.line}: {first.reason}"


class Quarantine:
    """Writer of entries to a file that exists only if there is one; `strict` makes the first an error."""

    def __init__(self, path: Path, *, strict: bool = False) -> None:
        self.path = path
        self.count = 0
        self.first: QuarantineEntry | None = None
        self._strict = strict
        self._file = None

    def close(self) -> None:
        """Close the file, if it was opened."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def put(self, entry: QuarantineEntry) -> None:
        """Add an entry, with its text truncated to MAX_TEXT characters.

        Raises:
            DataError: if `strict`; the message names file and line.
        """
        if self._strict:
            raise DataError(
                f"{entry.file}:{entry.line}: {entry.reason}",
                fix="correct the line, or leave out --strict to set such lines aside",
            )
        if self._file is None:
            self._file = self.path.open("wb")
        shown = entry.text[:MAX_TEXT].encode("utf-8", "replace").decode()
        self._file.write(msgspec.json.encode(msgspec.structs.replace(entry, text=shown)) + b"\n")
        self.count += 1
        self.first = self.first or entry
