"""The lines of a growing file by the step in which they were written, untouched, so that bytes can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from tinsmith.types.errors import DataError
from tinsmith.types.json_text import UNREADABLE

Timeline = Mapping[int, list[bytes]]
"""Whole lines by step, ascending, each step's in the file's order."""

Line = Mapping[str, object]


class _Dated(msgspec.Struct, frozen=True):
    step: int


_DATED = msgspec.json.Decoder(_Dated)
_WHOLE = msgspec.json.Decoder(dict[str, object])


def timeline(file: Path, steps: int | None) -> Timeline:
    """Read a file up to its first line of step `steps` (None: all of it); one that is absent is empty.

    The test of an earlier checkpoint is written at the end of a run, under that checkpoint's step: a line belongs to
    the latest step that stands in it or before it.
    """
    if not file.is_file():
        return {}
    found: dict[int, list[bytes]] = {}
    now = 0
    with file.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                now = max(now, _DATED.decode(line).step)
            except UNREADABLE as error:
                raise DataError(f"{file}: line {number} is damaged: {error}") from None
            if steps is not None and now >= steps:
                break
            found.setdefault(now, []).append(line)
    return found


def decode(line: bytes) -> Line:
    """Return what a line says."""
    return _WHOLE.decode(line)
