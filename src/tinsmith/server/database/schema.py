"""Tables of the server's state file, and upgrades from earlier versions.

Row numbers are never reused: they only grow, across restarts.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tinsmith.types.disk import is_full
from tinsmith.types.errors import ConfigError

VERSION = 5
"""Version of the schema, incremented with every change of the tables."""

OWNED = ("sessions", "training_runs", "sampling_sessions", "checkpoints")
"""Tables whose rows belong to a key; they store its name, never the key."""

_OWNERS = tuple(f"CREATE INDEX owned_{table} ON {table} (key_name)" for table in OWNED)
_OF_MODEL = "CREATE INDEX checkpoints_of_model ON checkpoints (model_id, checkpoint_order)"

UPGRADES = {
    1: ("ALTER TABLE checkpoints ADD COLUMN public INTEGER NOT NULL DEFAULT 0",),
    2: (*(f"ALTER TABLE {t} ADD COLUMN key_name TEXT NOT NULL DEFAULT 'default'" for t in OWNED), *_OWNERS),
    3: (
        "ALTER TABLE bodies ADD COLUMN key_name TEXT NOT NULL DEFAULT 'default'",
        # An owner's id begins with its key's name and a dot; names contain no dot (access.caller.owner_of).
        "UPDATE bodies SET key_name = substr(owner, 1, instr(owner, '.') - 1) WHERE instr(owner, '.') > 0",
        _OF_MODEL,
    ),
    4: ("ALTER TABLE sampling_sessions ADD COLUMN weights TEXT", "ALTER TABLE requests ADD COLUMN content BLOB"),
}
"""Statements that upgrade from each version to the next. Before keys had names, the only one was the default."""

TABLES = (
    "CREATE TABLE schema_version (version INTEGER NOT NULL)",
    """
    CREATE TABLE sessions (
        session_order INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL UNIQUE,
        about TEXT NOT NULL,
        finished TEXT,
        finished_detail TEXT,
        key_name TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE training_runs (
        run_order INTEGER PRIMARY KEY,
        model_id TEXT NOT NULL UNIQUE,
        session_id TEXT NOT NULL,
        model_seq_id INTEGER NOT NULL,
        base_model TEXT NOT NULL,
        spec TEXT NOT NULL,
        user_metadata TEXT NOT NULL,
        created_at REAL NOT NULL,
        last_request_at REAL NOT NULL,
        last_applied_seq_id INTEGER NOT NULL DEFAULT 0,
        unloaded INTEGER NOT NULL DEFAULT 0,
        key_name TEXT NOT NULL,
        UNIQUE (session_id, model_seq_id)
    )
    """,
    """
    CREATE TABLE sampling_sessions (
        sampling_order INTEGER PRIMARY KEY,
        sampling_session_id TEXT NOT NULL UNIQUE,
        session_id TEXT NOT NULL,
        sampling_session_seq_id INTEGER NOT NULL,
        base_model TEXT NOT NULL,
        model_path TEXT,
        snapshot INTEGER NOT NULL,
        key_name TEXT NOT NULL,
        weights TEXT,
        UNIQUE (session_id, sampling_session_seq_id)
    )
    """,
    """
    CREATE TABLE requests (
        request_order INTEGER PRIMARY KEY,
        request_id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        seq_id INTEGER NOT NULL,
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        message TEXT,
        category TEXT,
        content BLOB,
        UNIQUE (owner, seq_id)
    )
    """,
    "CREATE INDEX pending_requests ON requests (request_order) WHERE state = 'pending'",
    # Separate from `requests`, so that the permanent record of requests stays small.
    """
    CREATE TABLE bodies (
        body_order INTEGER PRIMARY KEY AUTOINCREMENT,
        request_id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        media_type TEXT NOT NULL,
        body BLOB NOT NULL,
        key_name TEXT NOT NULL
    )
    """,
    "CREATE INDEX bodies_of_owner ON bodies (owner, body_order)",
    "CREATE TABLE occurrences (key BLOB PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE checkpoints (
        checkpoint_order INTEGER PRIMARY KEY AUTOINCREMENT,
        path TEXT NOT NULL UNIQUE,
        model_id TEXT NOT NULL,
        base_model TEXT NOT NULL,
        rank INTEGER,
        created_at REAL NOT NULL,
        expires_at REAL,
        user_metadata TEXT NOT NULL,
        size_bytes INTEGER NOT NULL,
        public INTEGER NOT NULL DEFAULT 0,
        key_name TEXT NOT NULL
    )
    """,
    *_OWNERS,
    _OF_MODEL,
)


def prepare(connection: sqlite3.Connection, file: Path) -> None:
    """Create the tables in an empty file, or check and upgrade those of an existing one.

    Raises:
        ConfigError: the file is another program's, of a newer version, or on a disk without support for WAL.
    """
    try:
        if not _is_ours(connection, file):
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise refusal(file, f"journal_mode = {mode}", "a folder on a local disk")
            connection.execute("BEGIN IMMEDIATE")
            if not _is_ours(connection, file):  # another process may have been faster
                for statement in TABLES:
                    connection.execute(statement)
                connection.execute("INSERT INTO schema_version VALUES (?)", (VERSION,))
            connection.execute("COMMIT")
        _upgrade(connection)
    except sqlite3.DatabaseError as error:
        if is_full(error):
            raise
        raise refusal(file, str(error), "a file that tinsmith wrote") from error


def _is_ours(connection: sqlite3.Connection, file: Path) -> bool:
    """True if our tables exist; False for an empty file."""
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master").fetchall()}
    if not names:
        return False
    if "schema_version" not in names:
        raise refusal(file, sorted(names)[:5], "a file that tinsmith wrote")
    version = connection.execute("SELECT version FROM schema_version").fetchone()[0]
    if version != VERSION and version not in UPGRADES:
        raise refusal(file, f"schema version {version}", f"schema version {VERSION}")
    return True


def _upgrade(connection: sqlite3.Connection) -> None:
    """Upgrade the tables of an earlier version, all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    (version,) = connection.execute("SELECT version FROM schema_version").fetchone()
    for step in range(version, VERSION):
        for statement in UPGRADES[step]:
            connection.execute(statement)
    connection.execute("UPDATE schema_version SET version = ?", (VERSION,))
    connection.execute("COMMIT")


def refusal(file: Path, found: object, allowed: str) -> ConfigError:
    """Return the error for an unusable state file, with the reason and the remedy."""
    return ConfigError(
        f"{file}: this version of tinsmith cannot keep its state here",
        field="state",
        value=found,
        allowed=allowed,
        fix="give another folder with --state, or use the version that wrote it",
    )
