"""SQLite file of a server, open for its whole life: writes under a lock, concurrent reads.

There are two connections. Writes are serialised on one, from any thread. Reads use the other and return the last
commit: a read never waits for a disk, and its rows survive a killed process. In a transaction only `execute` returns
uncommitted rows.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from pathlib import Path

from tinsmith.server.database.schema import prepare, refusal
from tinsmith.types.disk import writing
from tinsmith.types.errors import InputError

Storable = str | bytes | int | float | None

_BUSY_S = 10.0
_LARGEST = 2**63 - 1
_JOURNAL_BYTES = 64 << 20
_JOURNAL_PAGES = 1000
"""Pages after which a commit to the disk copies the journal into the file."""


class Durability(Enum):
    """Failure that a commit survives."""

    DISK = "FULL"
    """Power failure: the commit returns once it is on the disk."""
    PROCESS = "NORMAL"
    """End of the process; and a power failure, if a commit to DISK followed (the journal is one file)."""


class Database:
    """Two connections to a state file. Thread-safe."""

    def __init__(self, file: Path) -> None:
        """Open `file`, or create it.

        Raises:
            ConfigError: see `schema.prepare`.
            DiskFullError: there is no room for it.
        """
        self._file = file
        self._writing = threading.RLock()
        self._entrance = asyncio.Lock()
        self._durability: Durability | None = None  # Of the last transaction.
        self._reading = threading.Lock()
        self._writer = _connect(file)
        try:
            with writing(file):
                prepare(self._writer, file)
        except BaseException:
            self._writer.close()
            raise
        self._writer.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
        self._reader = _connect(file)
        self._reader.execute("PRAGMA query_only = ON")

    @contextmanager
    def transaction(self, durability: Durability = Durability.DISK) -> Generator[None, None, None]:
        """Commit the statements of the body, all or nothing; a nested transaction joins the outer one."""
        with self._writing:
            if self._writer.in_transaction:
                yield
                return
            with writing(self._file):
                yield from self._transact(durability)

    def _transact(self, durability: Durability) -> Generator[None, None, None]:
        if durability is not self._durability:
            self._writer.execute(f"PRAGMA synchronous = {durability.value}")
            # Copying the journal waits for the disk: only commits do that wait for it anyway.
            pages = _JOURNAL_PAGES if durability is Durability.DISK else 0
            self._writer.execute(f"PRAGMA wal_autocheckpoint = {pages}")
            self._durability = durability
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    @asynccontextmanager
    async def without_waiting(self) -> AsyncGenerator[None]:
        """Write on the event loop without a wait for the disk there: others' commits are awaited on a thread.

        The body holds the lock, so it must not `await`; its commits may promise no more than `Durability.PROCESS`.
        """
        async with self._entrance:  # in order of arrival
            while not self._writing.acquire(blocking=False):
                await asyncio.to_thread(self._until_written)
        try:
            yield
        finally:
            self._writing.release()

    def _until_written(self) -> None:
        with self._writing:
            pass

    def execute(self, sql: str, *values: Storable) -> list[sqlite3.Row]:
        """Run a statement of the caller's transaction; return its rows."""
        assert self._writer.in_transaction, "a write stands in a transaction"
        return self._writer.execute(sql, _bound(values)).fetchall()

    def query(self, sql: str, *values: Storable) -> list[sqlite3.Row]:
        """Return the rows of a SELECT over committed data."""
        with self._reading:
            return self._reader.execute(sql, _bound(values)).fetchall()

    def close(self) -> None:
        """Close the file; nothing is lost without this call."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.close()


def _connect(file: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(file, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise refusal(file, str(error), "a file that can be written") from error
    connection.row_factory = sqlite3.Row
    return connection


def _bound(values: tuple[Storable, ...]) -> tuple[Storable, ...]:
    """Return values that SQLite accepts: lone surrogates, which are not valid text, become U+FFFD.

    Raises:
        InputError: an integer has more than 64 bits.
    """
    bound: list[Storable] = []
    for value in values:
        if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
            raise InputError("this number is too large", value=value, allowed=f"up to {_LARGEST}")
        if isinstance(value, str):
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        bound.append(value)
    return tuple(bound)
