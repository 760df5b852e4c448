"""Detection of a full disk, whichever library reports it: Python, SQLite, safetensors, polars or numpy."""

from __future__ import annotations

import errno
import re
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Final

from tinsmith.types.errors import DiskFullError

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_SQLITE: Final = frozenset({"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_SHMSIZE"})
_NUMBERS: Final = "|".join(map(str, sorted(_FULL)))
_TEXT: Final = re.compile(
    rf"no space left|file too large|disk quota exceeded|os error ({_NUMBERS})\b|requested and \d+ written",
    re.IGNORECASE,
)
"""Messages of libraries whose errors have no number: Rust's safetensors and polars, and numpy's tofile."""


def is_full(error: BaseException) -> bool:
    """Return True if an error means that there is no room for a write: disk, quota, or largest file."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", "") in _SQLITE
    return _TEXT.search(str(error)) is not None


def disk_full(error: BaseException, target: object = None) -> DiskFullError:
    """Return such an error as ours; `target` names the written file, unless the error does."""
    named = target if target is not None else getattr(error, "filename", None) or "a file"
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return DiskFullError(
        f"could not write {named}: no space left ({reason[:160]})",
        fix="make room, then do the same again: what was saved before is whole",
    )


class writing:
    """Context in which a full disk raises a DiskFullError that names `target`."""

    def __init__(self, target: Path) -> None:
        """Set the name of the written file."""
        self._target = target

    def __enter__(self) -> None:
        """Enter the context."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Convert an error about a full disk."""
        if error is not None and not isinstance(error, DiskFullError) and is_full(error):
            raise disk_full(error, self._target) from error
