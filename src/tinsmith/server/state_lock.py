"""Lock on a server's state folder, which ends with its process: one server per folder at a time."""

from __future__ import annotations

import fcntl
import time
from io import TextIOWrapper
from pathlib import Path

from tinsmith.server.database.private import LOCK, private_file, private_folder
from tinsmith.types.errors import ConfigError


def lock_state(state: Path, patience: float = 0.0) -> TextIOWrapper:
    """Lock the state folder for this process, before anything in it is read or repaired.

    `patience`: seconds to wait for another server that is about to stop.

    Raises:
        ConfigError: another server holds it, or it cannot be created.
    """
    try:
        private_folder(state)
        private_file(state / LOCK)
        lock = (state / LOCK).open("w")
    except OSError as error:
        raise ConfigError(
            f"the server's state cannot be written here: {error.strerror}",
            field="state",
            value=str(state),
            fix="name another with --state",
        ) from None
    if not _taken(lock, patience):
        lock.close()
        raise ConfigError(
            "another server uses this state folder", field="state", value=str(state), fix="name another with --state"
        )
    return lock


def _taken(lock: TextIOWrapper, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.05)
        else:
            return True
