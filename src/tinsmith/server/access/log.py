"""Access log: one line per finished request, with time, key name, request and outcome, but no secrets.

Headers, queries and bodies are never written, and text in a path that looks like a key is masked.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from tinsmith.server.access.guard import Answered
from tinsmith.server.access.keys import PREFIX
from tinsmith.types.errors import ConfigError
from tinsmith.types.visible import VisibleFormatter

logger = logging.getLogger(__name__)

STANDARD_OUTPUT = "-"
_KEY = re.compile(rf"{PREFIX}[^/]*")
_PLAIN = "/:._-~{}"


def log_to_stderr() -> None:
    """Send warnings and errors to standard error from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(VisibleFormatter(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


class AccessLog:
    """Writer of the log to a file or standard output."""

    def __init__(self, target: str) -> None:
        """Append to the file of this name; `-` is standard output.

        Raises:
            ConfigError: it cannot be written.
        """
        self._target = target
        self._written = True
        self._file = _opened(target)

    def __call__(self, answered: Answered) -> None:
        """Write one line; a failure to write does not affect the request."""
        try:
            self._file.write(line_of(answered, datetime.now(UTC)))
            self._file.flush()
        except OSError as error:
            if self._written:
                logger.warning("the access log %s cannot be written: %s", self._target, error)
            self._written = False
        else:
            self._written = True

    def reopen(self) -> None:
        """Reopen the file by name, since the previous one may have been renamed.

        Raises:
            ConfigError: it cannot be written; the previous file stays open.
        """
        before, self._file = self._file, _opened(self._target)
        _close(before)

    def close(self) -> None:
        """Close the file."""
        _close(self._file)


def line_of(answered: Answered, at: datetime) -> str:
    r"""Return the line: time, key's name, method, path, status, bytes of the answer, milliseconds.

    >>> line_of(
    ...     Answered(
    ...         name="alice", method="GET", path="/a b/tml-secret", route="/{path:path}",
    ...         status=404, num_bytes=12, seconds=0.0015,
    ...     ),
    ...     datetime(2026, 1, 2, tzinfo=UTC),
    ... )
    '2026-01-02T00:00:00.000Z alice GET /a%20b/tml-... 404 12 1.5\n'
    """
    when = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    path = quote(_KEY.sub(f"{PREFIX}...", answered.path), safe=_PLAIN, errors="replace")
    return (
        f"{when} {answered.name or '-'} {quote(answered.method)} {path} {answered.status}"
        f" {answered.num_bytes} {answered.seconds * 1000:.1f}\n"
    )


def _close(file: TextIO) -> None:
    if file is not sys.stdout:
        with suppress(OSError):  # a full disk, of which each line of the rest was reported
            file.close()


def _opened(target: str) -> TextIO:
    if target == STANDARD_OUTPUT:
        return sys.stdout
    try:
        # The log lists users' requests, so other users must not read it.
        handle = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"the access log cannot be written: {error.strerror}",
            field="--access-log",
            value=str(Path(target)),
            allowed="a file that can be written, or - for standard output",
        ) from None
    return os.fdopen(handle, "a", encoding="ascii")
