"""Persistent state of a server, in one SQLite file beside the checkpoints.

It records requests and their outcomes; it computes nothing, and holds no weights. All methods may be called from any
thread. Writes are serialised and, if they promise something to a client, return once it is on the disk; reads return
committed data and never wait for a write.

One server per state folder: two would number the same sessions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from types import TracebackType

from tinsmith.server.database.checkpoint_rows import CheckpointRows
from tinsmith.server.database.database import Database
from tinsmith.server.database.private import FILE, private_file, private_folder
from tinsmith.server.database.request_rows import RequestRows
from tinsmith.server.database.run_rows import RunRows
from tinsmith.server.database.session_rows import SessionRows
from tinsmith.types.errors import ConfigError

BESIDE = ("-wal", "-shm")
"""Suffixes of the files that SQLite writes beside it."""


class Store(SessionRows, RunRows, RequestRows, CheckpointRows):
    """State of one server."""

    def __init__(self, state: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Open or create the state below a folder, and reconcile records and checkpoints.

        Args:
            state: the folder, which contains the checkpoints too.
            clock: seconds since 1970, for display and expiry.

        Raises:
            ConfigError: the folder cannot be made, or holds the state of a newer version.
        """
        try:
            private_folder(state)
            for suffix in ("", *(each for each in BESIDE if (state / f"{FILE}{each}").exists())):
                private_file(state / f"{FILE}{suffix}")
        except OSError as error:
            raise ConfigError(
                "the server's state cannot be written here",
                field="state",
                value=str(state),
                allowed="a folder that can be written",
                fix=f"name another with --state ({error.strerror})",
            ) from error
        self._state = state
        self._clock = clock
        self.changing_checkpoints = threading.Lock()
        self._database = Database(state / FILE)
        try:
            self._reconcile()
        except BaseException:
            self.close()
            raise

    def batch(self) -> AbstractContextManager[None]:
        """Commit all writes of a `with` body together: all or nothing, with one wait for the disk.

        Other threads' writes wait for its end, so compute nothing in it; never `await` in it, or another task's writes
        would join. Reads do not include its writes before its end. An error in it must propagate out of it.
        """
        return self._database.transaction()

    def on_the_loop(self) -> AbstractAsyncContextManager[None]:
        """Accept or refuse requests in an `async with` body on the event loop, which waits for no disk meanwhile.

        Every write on the loop stands in one. The body must not `await`; what promises more than to outlive this
        process, as results and sessions do, is written on a thread.
        """
        return self._database.without_waiting()

    def close(self) -> None:
        """Close the file; a killed process loses nothing without this call."""
        self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
