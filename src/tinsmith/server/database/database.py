"""One SQLite file, open for the life of a server: written under a lock, read beside it.

Two connections. Writes take turns on one, from any thread. Reads go through the other and see what
is committed, at the last commit: a read never waits for a disk, and what it reports does not go
away when the process is killed. In a transaction only `execute` sees what was not yet committed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from tinsmith.server.database.schema import prepare, refusal
from tinsmith.types.disk import writing
from tinsmith.types.errors import InputError

Storable = str | bytes | int | float | None

_BUSY_S = 10.0
_LARGEST = 2**63 - 1
_JOURNAL_BYTES = 64 << 20


class Durability(Enum):
    """Event that a commit outlives."""

    DISK = "FULL"
    """A power cut: the commit returns when it is on the disk."""
    PROCESS = "NORMAL"
    """The process's death; and a power cut, if a commit to DISK followed (the journal is one file)."""


class Database:
    """The two connections to a state file; safe to use from several threads."""

    def __init__(self, file: Path) -> None:
        """Open `file`, or make it.

        Raises:
            ConfigError: as `schema.prepare`.
            DiskFullError: there is no room for it.
        """
        self._file = file
        self._writing = threading.RLock()
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
        """Commit what the body executes, all or nothing; within another one, as part of it."""
        with self._writing:
            if self._writer.in_transaction:
                yield
                return
            with writing(self._file):
                yield from self._transact(durability)

    def _transact(self, durability: Durability) -> Generator[None, None, None]:
        self._writer.execute(f"PRAGMA synchronous = {durability.value}")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def execute(self, sql: str, *values: Storable) -> list[sqlite3.Row]:
        """Run a statement of the transaction that the caller is in; return its rows."""
        assert self._writer.in_transaction, "a write stands in a transaction"
        return self._writer.execute(sql, _bound(values)).fetchall()

    def query(self, sql: str, *values: Storable) -> list[sqlite3.Row]:
        """Return the rows of a SELECT over what is committed."""
        with self._reading:
            return self._reader.execute(sql, _bound(values)).fetchall()

    def close(self) -> None:
        """Close the file; nothing is lost, whether or not this is called."""
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
    """Return values that SQLite takes: lone surrogates, which are no text, become U+FFFD.

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
