"""Folders and files that only the server's user may read: made so, and made so again where they are wider."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

UMASK: Final = 0o077
"""Of a server's process: whatever it writes is its user's alone."""
LOCK: Final = "server.lock"
FILE: Final = "tinsmith.sqlite3"
OWN: Final = frozenset({LOCK, FILE})
"""By one of these a folder is known as a server's state."""
_FOLDER: Final = 0o700
_FILE: Final = 0o600


def private_folder(folder: Path) -> None:
    """Make a folder, or take one, that only this user may enter; one with other things in it is left as it is.

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
    """Make an empty file, or take one, that only this user may read.

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
