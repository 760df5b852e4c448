"""Records of checkpoints beside their files; the files decide which checkpoints exist.

A checkpoint is written first and recorded afterwards. If the process dies in between, the next start creates the record
from the folder's marker, which holds all but the expiry.

A request may read its own key's checkpoints and published ones; the server itself may read all.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from tinsmith.engine.checkpoint_files import MARKER
from tinsmith.engine.checkpoints import delete, is_checkpoint, list_checkpoints, read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.models.staging import present
from tinsmith.server.access.caller import is_own, own_rows, owner_of
from tinsmith.server.database.database import Database, Storable
from tinsmith.server.database.records import CheckpointRecord, dumped_metadata, loaded_metadata
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import CheckpointError, InputError, TinsmithError
from tinsmith.types.model_names import ModelName

logger = logging.getLogger(__name__)


class CheckpointRows:
    """Part of the store with the records of checkpoints."""

    _database: Database
    _state: Path
    _clock: Callable[[], float]
    changing_checkpoints: Lock
    """Held while a checkpoint's files and its record change together: writing and deleting one exclude each other."""

    def record_checkpoint(
        self,
        path: TinkerPath,
        *,
        base_model: str,
        rank: int | None,
        ttl_s: float | None = None,
        user_metadata: Mapping[str, object] | None = None,
    ) -> CheckpointRecord:
        """Record a checkpoint that was just written; an overwritten one becomes the newest, and is not published.

        Args:
            path: its name; its folder exists.
            base_model: the requested name, with its suffix.
            rank: None if all weights are trained.
            ttl_s: seconds until it expires; None for never.
            user_metadata: the user's metadata.

        Raises:
            CheckpointError: there is no complete checkpoint.
        """
        folder = path.folder(self._state)
        if not is_checkpoint(folder):
            raise CheckpointError("there is no complete checkpoint here", field="path", value=str(path))
        now = self._clock()
        record = CheckpointRecord(
            path=path,
            base_model=base_model,
            rank=rank,
            created_at=now,
            expires_at=None if ttl_s is None else now + ttl_s,
            user_metadata=user_metadata,
            size_bytes=_size(folder),
        )
        with self._database.transaction():
            self._put(record)
        return record

    @contextmanager
    def overwriting(self, path: TinkerPath) -> Generator[None]:
        """Overwrite a checkpoint in the body: its publication and expiry end before, in case this process dies after.

        If the body is refused, they are as before.
        """
        of = "FROM checkpoints WHERE path = ? AND (public = 1 OR expires_at IS NOT NULL)"
        before = self._database.query(f"SELECT public, expires_at {of}", str(path))
        self._mark(path, [(0, None)] if before else [])
        try:
            yield
        except TinsmithError:
            self._mark(path, before)
            raise
        if before and before[0]["public"]:
            logger.warning("%s was overwritten: it is published no more", path)

    def checkpoint(self, path: TinkerPath) -> CheckpointRecord | None:
        """Return a checkpoint's record; None if it is missing, incomplete or another key's."""
        if not self.may_read(path):
            return None
        rows = self._database.query("SELECT * FROM checkpoints WHERE path = ?", str(path))
        return next(iter(self._existing(rows)), None)

    def may_read(self, path: TinkerPath | str, *, reader: str | None = None) -> bool:
        """True if the caller, or the key `reader`, may read this checkpoint, should it exist: its own, or published."""
        own = is_own(str(path)) if reader is None else owner_of(str(path)) == reader
        return own or bool(self._database.query("SELECT 1 FROM checkpoints WHERE path = ? AND public = 1", str(path)))

    def require_checkpoint(self, path: TinkerPath, *, reader: str | None = None) -> Path:
        """Return the folder of an existing checkpoint.

        `reader`: the key whose request is executed here, on a thread that has no caller. It is checked now, since the
        checkpoint may have been overwritten after the request came, and then is not published any more.

        Raises:
            InputError: there is none with this name.
        """
        folder = path.folder(self._state)
        if not self.may_read(path, reader=reader) or not is_checkpoint(folder):
            raise InputError(
                "there is no such checkpoint: it was never saved, was deleted, or has expired",
                field="path",
                value=str(path),
                fix="list those that are there with the SDK's RestClient",
            )
        return folder

    def checkpoints(self, *, model_id: str | None = None) -> tuple[CheckpointRecord, ...]:
        """Return the existing checkpoints (of one training run), newest last."""
        own, values = own_rows()
        where, of_model = ("1", ()) if model_id is None else ("model_id = ?", (model_id,))
        rows = self._database.query(
            f"SELECT * FROM checkpoints WHERE {own} AND {where} ORDER BY checkpoint_order", *values, *of_model
        )
        return self._existing(rows)

    def expired(self, now: float) -> tuple[CheckpointRecord, ...]:
        """Return the existing checkpoints that have expired by the wall clock time `now`."""
        rows = self._database.query("SELECT * FROM checkpoints WHERE expires_at <= ? ORDER BY checkpoint_order", now)
        return self._existing(rows)

    def set_ttl(self, path: TinkerPath, ttl_s: float | None) -> bool:
        """Set the expiry of a checkpoint in seconds from now, or to never; False if it does not exist."""
        if self.checkpoint(path) is None:
            return False
        expires_at = None if ttl_s is None else self._clock() + ttl_s
        with self._database.transaction():
            rows = self._database.execute(
                "UPDATE checkpoints SET expires_at = ? WHERE path = ? RETURNING 1", expires_at, str(path)
            )
        return bool(rows)

    def set_public(self, path: TinkerPath, public: bool) -> None:
        """Mark a checkpoint as published or not."""
        with self._database.transaction():
            self._database.execute("UPDATE checkpoints SET public = ? WHERE path = ?", int(public), str(path))

    def delete_checkpoint(self, path: TinkerPath, *, expired_at: float | None = None) -> bool:
        """Delete a checkpoint's files and its record together.

        Args:
            path: its name.
            expired_at: seconds since 1970; delete it only if its record says now that it has expired by then. It may
                have been overwritten, or its expiry cleared, since it was listed as `expired`.

        Returns:
            False if there is none, or it has not expired.
        """
        folder = path.folder(self._state)
        with self.changing_checkpoints, self._database.transaction():
            rows = self._database.execute(
                "DELETE FROM checkpoints WHERE path = ?1 AND (?2 IS NULL OR expires_at <= ?2) RETURNING 1",
                str(path),
                expired_at,
            )
            there = bool(rows) and is_checkpoint(folder)
            if there:
                delete(folder)
        return there

    def _reconcile(self) -> None:
        """Reconcile the records with the files, before anything else uses this state."""
        recorded = {row["path"] for row in self._database.query("SELECT path FROM checkpoints")}
        there = {str(path): path for path in list_checkpoints(self._state)}
        found = [
            record
            for text, path in there.items()
            if text not in recorded and (record := self._record_of(path)) is not None
        ]
        with self._database.transaction():
            for text in sorted(recorded - set(there)):
                self._database.execute("DELETE FROM checkpoints WHERE path = ?", text)
            for record in sorted(found, key=lambda record: (record.created_at, record.path)):
                self._put(record)

    def _record_of(self, path: TinkerPath) -> CheckpointRecord | None:
        """Create the record of a checkpoint from its files; None if they are damaged."""
        folder = path.folder(self._state)
        try:
            checkpoint = read(folder)
        except CheckpointError:
            return None  # it is rejected, with the reason, when it is requested
        spec = checkpoint.spec
        kind = spec.kind
        rows = self._database.query("SELECT base_model FROM training_runs WHERE model_id = ?", path.session)
        own = ModelName(base=checkpoint.base.name, kind=kind, alpha=spec.alpha, router=spec.train_router)
        return CheckpointRecord(
            path=path,
            base_model=rows[0]["base_model"] if rows else str(own),
            rank=None if kind is AdapterKind.FULL else checkpoint.spec.rank,
            created_at=(present(folder) / MARKER).stat().st_mtime,
            expires_at=None,
            user_metadata=checkpoint.user_metadata or None,
            size_bytes=_size(folder),
        )

    def _put(self, record: CheckpointRecord) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO checkpoints (path, model_id, base_model, rank, created_at,"
            " expires_at, user_metadata, size_bytes, public, key_name)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            str(record.path),
            record.model_id,
            record.base_model,
            record.rank,
            record.created_at,
            record.expires_at,
            dumped_metadata(record.user_metadata),
            record.size_bytes,
            int(record.public),
            owner_of(record.model_id),
        )

    def _mark(self, path: TinkerPath, marks: Sequence[Iterable[Storable]]) -> None:
        for public, expires_at in marks:
            with self._database.transaction():
                self._database.execute(
                    "UPDATE checkpoints SET public = ?, expires_at = ? WHERE path = ?", public, expires_at, str(path)
                )

    def _existing(self, rows: list[sqlite3.Row]) -> tuple[CheckpointRecord, ...]:
        records = (_record(row) for row in rows)
        return tuple(record for record in records if is_checkpoint(record.path.folder(self._state)))


def _record(row: sqlite3.Row) -> CheckpointRecord:
    return CheckpointRecord(
        path=TinkerPath.parse(row["path"]),
        base_model=row["base_model"],
        rank=row["rank"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        user_metadata=loaded_metadata(row["user_metadata"]),
        size_bytes=row["size_bytes"],
        public=bool(row["public"]),
    )


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in present(folder).iterdir())
