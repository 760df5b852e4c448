"""Private folders and files, readable by the server's user only, with permissions tightened if necessary."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

UMASK: Final = 0o077
"""Umask of a server's process: its files are for its user only."""
LOCK: Final = "server.lock"
FILE: Final = "tinsmith.sqlite3"
OWN: Final = frozenset({LOCK, FILE})
"""Entries that identify a folder as a server's state."""
_FOLDER: Final = 0o700
_FILE: Final = 0o600


def private_folder(folder: Path) -> None:
    """Create or restrict a folder for this user only; a folder with other contents is left as it is.

    Raises:
        OSError: it cannot be made.
    """
    folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    there = {each.name for each in folder.iterdir()}
    if not there or not there.isdisjoint(OWN):
        _tighten(folder, _FOLDER)
    elif folder.stat().st_mode & UMASK:
        logger.warning("others can enter %s, which holds more than a server's state; what it writes is private", folder)


def private_file(file: Path) -> None:
    """Create or restrict a file for this user only.

    Raises:
        OSError: it cannot be made.
    """
    os.close(os.open(file, os.O_RDWR | os.O_CREAT, _FILE))
    _tighten(file, _FILE)


def _tighten(path: Path, mode: int) -> None:
    found = stat.S_IMODE(path.stat().st_mode)
    if not found & UMASK:
        return
    try:
        path.chmod(found & mode)
    except OSError as error:
        logger.warning("others can read %s, and its mode cannot be changed: %s", path, error.strerror)
    else:
        logger.warning("others could read %s (mode %03o): now it is this user's alone", path, found)
