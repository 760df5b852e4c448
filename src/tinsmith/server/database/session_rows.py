"""Sessions and their sampling sessions: each created once, however often a client repeats the request.

A request may access those of its own key only, the server itself all.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence

from tinsmith.server.access.caller import DEFAULT, caller, is_own, own_rows, owner_of, session_prefix
from tinsmith.server.database.database import Database
from tinsmith.server.database.records import SamplingSession, Session, dumped_metadata, loaded_metadata
from tinsmith.types.errors import InputError


class SessionRows:
    """Part of the store with sessions and sampling sessions."""

    _database: Database
    _clock: Callable[[], float]

    def create_session(
        self,
        *,
        tags: Sequence[str] = (),
        user_metadata: Mapping[str, object] | None = None,
        sdk_version: str = "",
        project_id: str | None = None,
        display_name: str | None = None,
    ) -> Session:
        """Open a session; a key's n-th in a state file always has the same id (`s000001`), whatever others do."""
        about = {
            "tags": list(tags),
            "user_metadata": dumped_metadata(user_metadata),
            "sdk_version": sdk_version,
            "project_id": project_id,
            "display_name": display_name,
            "created_at": self._clock(),
        }
        name = caller() or DEFAULT
        with self._database.transaction():
            (row,) = self._database.execute(
                "INSERT INTO sessions (session_id, about, key_name)"
                " SELECT ?1 || printf('s%06d', count(*) + 1), ?2, ?3 FROM sessions"
                " WHERE key_name = ?3 RETURNING *",
                session_prefix(name),
                json.dumps(about),
                name,
            )
        return _session(row)

    def finish_session(self, session_id: str, *, reason: str, detail: str | None = None) -> None:
        """Record a client's reason for ending its session; the first reason stays.

        Raises:
            InputError: there is no such session.
        """
        with self._database.transaction():
            require_session(self._database, session_id)
            self._database.execute(
                "UPDATE sessions SET finished = ?, finished_detail = ? WHERE session_id = ? AND finished IS NULL",
                reason,
                detail,
                session_id,
            )

    def session(self, session_id: str) -> Session | None:
        """Return a session, or None."""
        if not is_own(session_id):
            return None
        rows = self._database.query("SELECT * FROM sessions WHERE session_id = ?", session_id)
        return _session(rows[0]) if rows else None

    def check_open(self, session_id: str) -> None:
        """Reject a session that has ended, as of the last commit.

        Raises:
            InputError: naming the reason.
        """
        session = self.session(session_id)
        if session is not None and session.finished is not None:
            raise _ended(session_id, session.finished_detail or session.finished)

    def sessions(self) -> tuple[Session, ...]:
        """Return all sessions in order of creation."""
        own, values = own_rows()
        rows = self._database.query(f"SELECT * FROM sessions WHERE {own} ORDER BY session_order", *values)
        return tuple(_session(row) for row in rows)

    def session_ids(self, *, limit: int, offset: int) -> tuple[str, ...]:
        """Return a page of the sessions' ids, newest first."""
        own, values = own_rows()
        rows = self._database.query(
            f"SELECT session_id FROM sessions WHERE {own} ORDER BY session_order DESC LIMIT ? OFFSET ?",
            *values,
            limit,
            offset,
        )
        return tuple(row["session_id"] for row in rows)

    def sessions_before(self, session_id: str | None, *, limit: int) -> tuple[Session, ...]:
        """Return the sessions created before this one, or before now, newest first."""
        own, values = own_rows()
        rows = self._database.query(
            f"SELECT * FROM sessions WHERE {own} AND session_order <"
            " coalesce((SELECT session_order FROM sessions WHERE session_id = ?), 9223372036854775807)"
            " ORDER BY session_order DESC LIMIT ?",
            *values,
            session_id,
            limit,
        )
        return tuple(_session(row) for row in rows)

    def projects(self) -> Mapping[str, str | None]:
        """Return each session's project."""
        own, values = own_rows()
        rows = self._database.query(
            f"SELECT session_id, json_extract(about, '$.project_id') AS project FROM sessions WHERE {own}", *values
        )
        return {row["session_id"]: row["project"] for row in rows}

    def create_sampling_session(
        self,
        *,
        session_id: str,
        sampling_session_seq_id: int,
        base_model: str,
        model_path: str | None = None,
        snapshot: bool = False,
        weights: str | None = None,
    ) -> SamplingSession:
        """Record a new sampling session; a repeated call with the same values returns the existing one.

        Not so for a snapshot: each is of other weights.

        Raises:
            InputError: there is no such session, it has ended, or the number was used for another sampler.
        """
        wanted = SamplingSession(
            sampling_session_id=f"{session_id}:sample:{sampling_session_seq_id}",
            session_id=session_id,
            sampling_session_seq_id=sampling_session_seq_id,
            base_model=base_model,
            model_path=model_path,
            snapshot=snapshot,
            weights=weights,
        )
        with self._database.transaction():
            require_open_session(self._database, session_id)
            new = self._database.execute(
                "INSERT INTO sampling_sessions (sampling_session_id, session_id,"
                " sampling_session_seq_id, base_model, model_path, snapshot, key_name, weights)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (session_id, sampling_session_seq_id) DO NOTHING RETURNING 1",
                wanted.sampling_session_id,
                session_id,
                sampling_session_seq_id,
                base_model,
                model_path,
                snapshot,
                owner_of(session_id),
                weights,
            )
            (row,) = self._database.execute(
                "SELECT * FROM sampling_sessions WHERE sampling_session_id = ?", wanted.sampling_session_id
            )
        if _sampling_session(row) != wanted or (snapshot and not new):
            raise number_used("sampling_session_seq_id", sampling_session_seq_id)
        return wanted

    def sampling_session(self, sampling_session_id: str) -> SamplingSession | None:
        """Return a sampling session, or None."""
        if not is_own(sampling_session_id):
            return None
        rows = self._database.query(
            "SELECT * FROM sampling_sessions WHERE sampling_session_id = ?", sampling_session_id
        )
        return _sampling_session(rows[0]) if rows else None

    def sampling_sessions(self, *, session_id: str | None = None) -> tuple[SamplingSession, ...]:
        """Return the sampling sessions (of one session), in order of creation."""
        own, values = own_rows()
        where, of_session = ("1", ()) if session_id is None else ("session_id = ?", (session_id,))
        rows = self._database.query(
            f"SELECT * FROM sampling_sessions WHERE {own} AND {where} ORDER BY sampling_order", *values, *of_session
        )
        return tuple(_sampling_session(row) for row in rows)


def require_session(database: Database, session_id: str) -> None:
    """Check, in a transaction, that the caller created this session here.

    Raises:
        InputError: the caller has no such session.
    """
    found = is_own(session_id) and database.execute("SELECT 1 FROM sessions WHERE session_id = ?", session_id)
    if not found:
        raise InputError(
            "there is no such session",
            field="session_id",
            value=session_id,
            fix="create a session first, on this server",
        )


def require_open_session(database: Database, session_id: str) -> None:
    """Check, in a transaction, that a session of the caller exists and is open.

    Raises:
        InputError: it does not, or has ended: objects created in it now would never be freed.
    """
    require_session(database, session_id)
    (row,) = database.execute("SELECT finished, finished_detail FROM sessions WHERE session_id = ?", session_id)
    if row["finished"] is not None:
        raise _ended(session_id, row["finished_detail"] or row["finished"])


def _ended(session_id: str, why: str) -> InputError:
    return InputError(
        f"this session has ended ({why})",
        field="session_id",
        value=session_id,
        fix="create another session, and load what was saved",
    )


def number_used(field: str, value: int) -> InputError:
    """Return the error for a number that a client used before, for something else."""
    return InputError(
        "this number was used before with other content",
        field=field,
        value=value,
        fix="repeat the request unchanged, or use the next number",
    )


def _session(row: sqlite3.Row) -> Session:
    about = json.loads(row["about"])
    return Session(
        session_id=row["session_id"],
        tags=tuple(about["tags"]),
        user_metadata=loaded_metadata(about["user_metadata"]),
        sdk_version=about["sdk_version"],
        project_id=about["project_id"],
        display_name=about["display_name"],
        finished=row["finished"],
        finished_detail=row["finished_detail"],
        created_at=about.get("created_at"),
    )


def _sampling_session(row: sqlite3.Row) -> SamplingSession:
    return SamplingSession(
        sampling_session_id=row["sampling_session_id"],
        session_id=row["session_id"],
        sampling_session_seq_id=row["sampling_session_seq_id"],
        base_model=row["base_model"],
        model_path=row["model_path"],
        snapshot=bool(row["snapshot"]),
        weights=row["weights"],
    )
