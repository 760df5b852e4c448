"""Requests and their futures: accepted once, settled once, with results stored for a limited time.

The record of a request is permanent, about a hundred bytes each: a retried POST must never count as a new one. A
result's body can be dropped by `forget_older_than`.
"""

from __future__ import annotations

import hashlib
import sqlite3

from tinsmith.server.access.caller import is_own, owner_of
from tinsmith.server.database.database import Database, Durability
from tinsmith.server.database.records import ErrorCategory, Failed, Finished, NoResult, Outcome, PendingRequest
from tinsmith.server.database.session_rows import number_used
from tinsmith.types.errors import InputError

REFUSED = "refused request"
"""Kind of a request that was never accepted."""


_KIND_OF = "SELECT kind, content FROM requests WHERE owner = ? AND seq_id = ?"


class RequestRows:
    """Part of the store with requests, and the counters behind unseeded sampling."""

    _database: Database

    def open_request(self, *, owner: str, seq_id: int, kind: str, content: bytes | None = None) -> tuple[str, bool]:
        """Accept a request; return its id, and True if it is new or False for a retry.

        Args:
            owner: the model or sampling session whose requests `seq_id` counts.
            seq_id: unique per owner, given by the client; a refused request uses it up too.
            kind: kind of request (`optim_step`).
            content: digest of the request, or None to compare it with no other.

        Raises:
            InputError: `seq_id` was used for another request.
        """
        request_id = _request_id(owner, seq_id, kind)
        with self._database.transaction(Durability.PROCESS):
            rows = self._database.execute(_KIND_OF, owner, seq_id)
            if not rows:
                self._database.execute(
                    "INSERT INTO requests (request_id, owner, seq_id, kind, state, content)"
                    " VALUES (?, ?, ?, ?, 'pending', ?)",
                    request_id,
                    owner,
                    seq_id,
                    kind,
                    content,
                )
        if rows:
            _require_same(kind, content, rows[0], seq_id)
        return request_id, not rows

    def find_request(self, *, owner: str, seq_id: int, kind: str, content: bytes | None = None) -> str | None:
        """Return the id of a request accepted earlier; None if there is none.

        Raises:
            InputError: `seq_id` was used for another request.
        """
        rows = self._database.query(_KIND_OF, owner, seq_id) if is_own(owner) else []
        if not rows:
            return None
        _require_same(kind, content, rows[0], seq_id)
        return _request_id(owner, seq_id, kind)

    def refuse(self, *, owner: str, seq_id: int, message: str) -> bool:
        """Record the number of a refused request; False if it was used before, or belongs to another key."""
        if not is_own(owner):
            return False
        with self._database.transaction(Durability.PROCESS):
            rows = self._database.execute(
                "INSERT INTO requests (request_id, owner, seq_id, kind, state, message, category)"
                " VALUES (?, ?, ?, ?, 'failed', ?, ?) ON CONFLICT DO NOTHING RETURNING 1",
                f"{owner}:{seq_id}:{REFUSED}",
                owner,
                seq_id,
                REFUSED,
                message,
                ErrorCategory.USER.value,
            )
        return bool(rows)

    def finish(self, request_id: str, *, body: bytes, media_type: str) -> bool:
        """Settle a request with its result, which is on the disk when this returns.

        Returns:
            True if this settled it; False if it was settled before.

        Raises:
            InputError: there is no such request.
        """
        with self._database.transaction():
            owner = self._settle(request_id, Finished(body=body, media_type=media_type))
            if owner is not None:
                self._database.execute(
                    "INSERT INTO bodies (request_id, owner, media_type, body, key_name) VALUES (?, ?, ?, ?, ?)",
                    request_id,
                    owner,
                    media_type,
                    body,
                    owner_of(owner),
                )
        return owner is not None

    def fail(self, request_id: str, *, message: str, category: ErrorCategory) -> bool:
        """Settle a request with an error; otherwise like `finish`."""
        with self._database.transaction():
            owner = self._settle(request_id, Failed(message=message, category=category))
        return owner is not None

    def _settle(self, request_id: str, outcome: Finished | Failed) -> str | None:
        """Change a pending request's state; return its owner, or None if it was settled before."""
        rows = self._database.execute("SELECT owner, state FROM requests WHERE request_id = ?", request_id)
        if not rows:
            raise InputError("there is no such request", field="request_id", value=request_id)
        if rows[0]["state"] != "pending":
            return None
        if isinstance(outcome, Finished):
            values = ("finished", None, None)
        else:
            values = ("failed", outcome.message, outcome.category.value)
        self._database.execute(
            "UPDATE requests SET state = ?, message = ?, category = ? WHERE request_id = ?", *values, request_id
        )
        return rows[0]["owner"]

    def result(self, request_id: str) -> Outcome:
        """Return the outcome of a request as of the last commit; another key's request is unknown."""
        if not is_own(request_id):
            return NoResult.UNKNOWN
        rows = self._database.query(
            "SELECT state, message, category, media_type, body FROM requests"
            " LEFT JOIN bodies USING (request_id) WHERE request_id = ?",
            request_id,
        )
        if not rows:
            return NoResult.UNKNOWN
        row = rows[0]
        if row["state"] == "failed":
            return Failed(message=row["message"], category=ErrorCategory(row["category"]))
        if row["body"] is not None:
            return Finished(body=row["body"], media_type=row["media_type"])
        return NoResult.PENDING if row["state"] == "pending" else NoResult.FORGOTTEN

    def pending(self) -> tuple[PendingRequest, ...]:
        """Return the pending requests in order of acceptance.

        When a server starts, these are the requests that the last one left unfinished.
        """
        rows = self._database.query(
            "SELECT request_id, owner, seq_id, kind FROM requests WHERE state = 'pending' ORDER BY request_order"
        )
        return tuple(
            PendingRequest(request_id=row["request_id"], owner=row["owner"], seq_id=row["seq_id"], kind=row["kind"])
            for row in rows
        )

    def seq_ids(self, owner: str) -> tuple[int, ...]:
        """Return the numbers used by an owner's requests, ascending."""
        rows = self._database.query("SELECT seq_id FROM requests WHERE owner = ? ORDER BY seq_id", owner)
        return tuple(row["seq_id"] for row in rows)

    def forget_older_than(self, count: int, *, total: int | None = None, num_bytes: int | None = None) -> int:
        """Drop bodies beyond the latest `count` per owner, and beyond `total` and `num_bytes` per key.

        Each RL step has a sampling session of its own, so that only `total` limits the file. Keys do not affect each
        other. A key's latest body stays, however large. Freed room is reused; the file does not shrink. The requests
        stay, as FORGOTTEN.

        Returns:
            The number of dropped bodies.
        """
        with self._database.transaction(Durability.PROCESS):
            rows = self._database.execute(
                "DELETE FROM bodies WHERE body_order IN ("
                "SELECT body_order FROM (SELECT body_order,"
                " row_number() OVER (PARTITION BY owner ORDER BY body_order DESC) AS place,"
                " row_number() OVER of_key AS place_of_key, sum(length(body)) OVER of_key AS bytes_of_key"
                " FROM bodies WINDOW of_key AS (PARTITION BY key_name ORDER BY body_order DESC))"
                " WHERE place > ?1 OR (?2 >= 0 AND place_of_key > ?2)"
                " OR (?3 >= 0 AND place_of_key > 1 AND bytes_of_key > ?3)) RETURNING 1",
                count,
                -1 if total is None else total,
                -1 if num_bytes is None else num_bytes,
            )
        return len(rows)

    def occurrence(self, key: str) -> int:
        """Count an occurrence of `key`; return the earlier number, over all restarts.

        A fresh state repeats an unseeded script from 0; a restarted server does not repeat its draws. Takes some thirty
        bytes per key, whatever its length.
        """
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._database.transaction(Durability.PROCESS):
            (row,) = self._database.execute(
                "INSERT INTO occurrences (key, count) VALUES (?, 1)"
                " ON CONFLICT (key) DO UPDATE SET count = count + 1 RETURNING count - 1 AS before",
                digest,
            )
        return row["before"]


def _request_id(owner: str, seq_id: int, kind: str) -> str:
    return f"{owner}:{seq_id}:{kind}"


def _require_same(kind: str, content: bytes | None, used: sqlite3.Row, seq_id: int) -> None:
    if used["kind"] != kind:
        raise InputError(
            "this number was used for another request",
            field="seq_id",
            value=seq_id,
            allowed=f"{kind}; it was a {used['kind']}",
            fix="let the SDK count the requests of a client",
        )
    if None not in (content, used["content"]) and used["content"] != content:
        raise number_used("seq_id", seq_id)
