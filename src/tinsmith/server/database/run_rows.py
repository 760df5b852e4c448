"""Training runs: recorded at creation, and retained after their models left memory.

A request may access those of its own key only, the server itself all.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tinsmith.server.access.caller import is_own, own_rows, owner_of
from tinsmith.server.database.database import Database, Durability
from tinsmith.server.database.records import TrainingRun, dumped_metadata, loaded_metadata
from tinsmith.server.database.session_rows import number_used, require_open_session
from tinsmith.types.adapters import AdapterKind, AdapterSpec


class RunRows:
    """Part of the store with training runs."""

    _database: Database
    _clock: Callable[[], float]

    def create_training_run(
        self,
        *,
        session_id: str,
        model_seq_id: int,
        base_model: str,
        spec: AdapterSpec,
        user_metadata: Mapping[str, object] | None = None,
    ) -> TrainingRun:
        """Record a new model; a repeated call with the same values returns the existing one.

        It reaches the disk with the result of the request that makes the model.

        Raises:
            InputError: there is no such session, it has ended, or `model_seq_id` was used for another model.
        """
        now = self._clock()
        values = (base_model, json.dumps(asdict(spec)), dumped_metadata(user_metadata))
        with self._database.transaction(Durability.PROCESS):
            require_open_session(self._database, session_id)
            self._database.execute(
                "INSERT INTO training_runs (model_id, session_id, model_seq_id, base_model, spec,"
                " user_metadata, created_at, last_request_at, key_name)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (session_id, model_seq_id) DO NOTHING",
                f"{session_id}:train:{model_seq_id}",
                session_id,
                model_seq_id,
                *values,
                now,
                now,
                owner_of(session_id),
            )
            (row,) = self._database.execute(
                "SELECT * FROM training_runs WHERE session_id = ? AND model_seq_id = ?", session_id, model_seq_id
            )
        if (row["base_model"], row["spec"], row["user_metadata"]) != values:
            raise number_used("model_seq_id", model_seq_id)
        return _training_run(row)

    def training_run(self, model_id: str) -> TrainingRun | None:
        """Return a training run, or None."""
        if not is_own(model_id):
            return None
        rows = self._database.query("SELECT * FROM training_runs WHERE model_id = ?", model_id)
        return _training_run(rows[0]) if rows else None

    def training_runs(self, *, session_id: str | None = None) -> tuple[TrainingRun, ...]:
        """Return the training runs (of one session), in order of creation."""
        own, values = own_rows()
        where, of_session = ("1", ()) if session_id is None else ("session_id = ?", (session_id,))
        rows = self._database.query(
            f"SELECT * FROM training_runs WHERE {own} AND {where} ORDER BY run_order", *values, *of_session
        )
        return tuple(_training_run(row) for row in rows)

    def training_runs_page(
        self, *, limit: int, offset: int, project_id: str | None = None
    ) -> tuple[tuple[TrainingRun, ...], int]:
        """Return a page of the training runs (of one project's sessions), newest first, and their total number."""
        own, values = own_rows()
        where, of_project = "1", ()
        if project_id is not None:
            where = "session_id IN (SELECT session_id FROM sessions WHERE json_extract(about, '$.project_id') = ?)"
            of_project = (project_id,)
        chosen = f"FROM training_runs WHERE {own} AND {where}"
        ((count,),) = self._database.query(f"SELECT count(*) {chosen}", *values, *of_project)
        rows = self._database.query(
            f"SELECT * {chosen} ORDER BY run_order DESC LIMIT ? OFFSET ?", *values, *of_project, limit, offset
        )
        return tuple(_training_run(row) for row in rows), count

    def mark_applied(self, model_id: str, seq_id: int) -> None:
        """Record that a run's requests up to `seq_id` were executed; never decreases."""
        with self._database.transaction(Durability.PROCESS):
            self._database.execute(
                "UPDATE training_runs SET last_request_at = ?,"
                " last_applied_seq_id = max(last_applied_seq_id, ?) WHERE model_id = ?",
                self._clock(),
                seq_id,
                model_id,
            )

    def mark_unloaded(self, model_id: str) -> None:
        """Record that a run's weights left memory: it accepts no more requests.

        It reaches the disk with the result of the request that unloads the model.
        """
        with self._database.transaction(Durability.PROCESS):
            self._database.execute("UPDATE training_runs SET unloaded = 1 WHERE model_id = ?", model_id)


def _training_run(row: sqlite3.Row) -> TrainingRun:
    spec: dict[str, Any] = json.loads(row["spec"])
    kind = AdapterKind(spec.pop("kind"))
    return TrainingRun(
        model_id=row["model_id"],
        session_id=row["session_id"],
        model_seq_id=row["model_seq_id"],
        base_model=row["base_model"],
        spec=AdapterSpec(kind=kind, **spec),
        user_metadata=loaded_metadata(row["user_metadata"]),
        created_at=row["created_at"],
        last_request_at=row["last_request_at"],
        last_applied_seq_id=row["last_applied_seq_id"],
        unloaded=bool(row["unloaded"]),
    )
