"""Records of checkpoints beside their files; the files are the truth about which there are.

A checkpoint is written first and recorded then. If the process dies in between, the next start finds
it without a record and makes one from the folder's marker: all but its expiry is known from there.

A request reads the checkpoints of its own key and those that were published; the server itself reads all.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from tinsmith.engine.checkpoint_files import MARKER
from tinsmith.engine.checkpoints import is_checkpoint, list_checkpoints, read
from tinsmith.engine.tinker_paths import TinkerPath
from tinsmith.models.staging import present
from tinsmith.server.access.caller import is_own, own_rows, owner_of
from tinsmith.server.database.database import Database
from tinsmith.server.database.records import CheckpointRecord, dumped_metadata, loaded_metadata
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.errors import CheckpointError, InputError
from tinsmith.types.model_names import ModelName


class CheckpointRows:
    """The part of the store that holds checkpoints' records."""

    _database: Database
    _state: Path
    _clock: Callable[[], float]

    def record_checkpoint(
        self,
        path: TinkerPath,
        *,
        base_model: str,
        rank: int | None,
        ttl_s: float | None = None,
        user_metadata: Mapping[str, object] | None = None,
    ) -> CheckpointRecord:
        """Note a checkpoint that was just written; an overwritten one becomes the newest.

        Args:
            path: its name; its folder is there.
            base_model: the name that was asked for, with its suffix.
            rank: None where all weights are trained.
            ttl_s: after so many seconds it is among the `expired`; None keeps it.
            user_metadata: what the user said about it.

        Raises:
            CheckpointError: no whole checkpoint is there.
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

    def checkpoint(self, path: TinkerPath) -> CheckpointRecord | None:
        """Return a checkpoint's record; None if no whole one is there, or it is another's."""
        if not self.may_read(path):
            return None
        rows = self._database.query("SELECT * FROM checkpoints WHERE path = ?", str(path))
        return next(iter(self._existing(rows)), None)

    def may_read(self, path: TinkerPath | str) -> bool:
        """True if whoever calls may read a checkpoint, if it is there: it is their own, or published."""
        return is_own(str(path)) or bool(
            self._database.query("SELECT 1 FROM checkpoints WHERE path = ? AND public = 1", str(path))
        )

    def require_checkpoint(self, path: TinkerPath, *, readable: bool | None = None) -> Path:
        """Return the folder of a checkpoint that is there.

        `readable`: what `may_read` said when the request came, where it is carried out later.

        Raises:
            InputError: there is none of this name.
        """
        folder = path.folder(self._state)
        if not (self.may_read(path) if readable is None else readable) or not is_checkpoint(folder):
            raise InputError(
                "there is no such checkpoint: it was never saved, was deleted, or has expired",
                field="path",
                value=str(path),
                fix="list those that are there with the SDK's RestClient",
            )
        return folder

    def checkpoints(self, *, model_id: str | None = None) -> tuple[CheckpointRecord, ...]:
        """Return the checkpoints (of one training run) that are there, the newest last."""
        own, values = own_rows()
        where, of_model = ("1", ()) if model_id is None else ("model_id = ?", (model_id,))
        rows = self._database.query(
            f"SELECT * FROM checkpoints WHERE {own} AND {where} ORDER BY checkpoint_order", *values, *of_model
        )
        return self._existing(rows)

    def expired(self, now: float) -> tuple[CheckpointRecord, ...]:
        """Return the checkpoints that are there and to be deleted, by the wall clock `now`."""
        rows = self._database.query("SELECT * FROM checkpoints WHERE expires_at <= ? ORDER BY checkpoint_order", now)
        return self._existing(rows)

    def set_ttl(self, path: TinkerPath, ttl_s: float | None) -> bool:
        """Let a checkpoint expire so many seconds from now, or never; False if it is not there."""
        if self.checkpoint(path) is None:
            return False
        expires_at = None if ttl_s is None else self._clock() + ttl_s
        with self._database.transaction():
            self._database.execute("UPDATE checkpoints SET expires_at = ? WHERE path = ?", expires_at, str(path))
        return True

    def set_public(self, path: TinkerPath, public: bool) -> None:
        """Mark a checkpoint as published or not."""
        with self._database.transaction():
            self._database.execute("UPDATE checkpoints SET public = ? WHERE path = ?", int(public), str(path))

    def forget_checkpoint(self, path: TinkerPath) -> None:
        """Drop the record of a checkpoint whose files were deleted; does nothing without one."""
        with self._database.transaction():
            self._database.execute("DELETE FROM checkpoints WHERE path = ?", str(path))

    def _reconcile(self) -> None:
        """Bring the records in line with the files: before anything else runs on this state."""
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
        """Make the record of a checkpoint from its files; None if they are damaged."""
        folder = path.folder(self._state)
        try:
            checkpoint = read(folder)
        except CheckpointError:
            return None  # it is refused, with the reason, where it is named
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
