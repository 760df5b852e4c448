"""Session search as the SDK asks it: filters, pages, and what is not known here refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Literal

from pydantic import Field

from tinsmith.server.database.records import CANCELLED, Session
from tinsmith.server.database.store import Store
from tinsmith.server.wire.body import Request
from tinsmith.server.wire.bounds import FailFast, TextMetadata
from tinsmith.server.wire.settings import Settings
from tinsmith.types.errors import InputError

OWNER = "local"
"""Owner of everything that one key opens, and the project of sessions without one."""
READ = 256
"""Sessions read at once while some are looked for."""


class Owner(Settings):
    """Owner of the sessions that are searched."""

    type: Literal["own", "accessible", "user"] = "own"
    owner_urns: FailFast[tuple[str, ...]] = ()


class Status(Settings):
    """Status of a session."""

    type: Literal["active", "cancelled", "failed", "client_finished"]
    reasons: tuple[Literal["success", "errored", "interrupted"], ...] | None = None


class After(Settings):
    """The last session of the page before."""

    last_created_at: str
    last_session_id: str


class SearchSessions(Request):
    """POST sessions/search."""

    session_id: str | None = None
    project_ids: FailFast[tuple[str, ...]] | None = None
    user_metadata: TextMetadata | None = None
    display_name: Annotated[str, Field(min_length=1)] | None = None
    owner: Owner = Owner()
    statuses: Annotated[FailFast[tuple[Status, ...]], Field(min_length=1, max_length=16)] | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: After | None = None


@dataclass(frozen=True, slots=True)
class SessionSearch:
    """Searches the store."""

    store: Store

    def page(self, asked: SearchSessions) -> dict[str, object]:
        """One page, the newest first. Sessions of a version that kept no time of creation are not found.

        Raises:
            InputError: for a project or a cursor that is none, or a status that is not known here.
        """
        _refuse_unknown(asked, {project or OWNER for project in self.store.projects().values()})
        after = None if asked.cursor is None else asked.cursor.last_session_id
        if after is not None and self.store.session(after) is None:
            raise InputError("this cursor is unknown to this server", field="cursor.last_session_id", value=after)
        found = list(islice((one for one in self._newest(after) if _matches(one, asked)), asked.limit + 1))
        page = [self._summary(one) for one in found[: asked.limit]]
        more = len(found) > asked.limit
        cursor = (
            {"last_created_at": page[-1]["created_at"], "last_session_id": page[-1]["session_id"]} if more else None
        )
        return {"sessions": page, "next_cursor": cursor}

    def _newest(self, before: str | None) -> Iterator[Session]:
        """The sessions that were made before this one, or before now, the newest first; never all in memory."""
        while some := self.store.sessions_before(before, limit=READ):
            yield from (one for one in some if one.created_at is not None)
            before = some[-1].session_id

    def _summary(self, session: Session) -> dict[str, object]:
        runs = self.store.training_runs(session_id=session.session_id)
        records = [one for run in runs for one in self.store.checkpoints(model_id=run.model_id)]
        assert session.created_at is not None
        metadata = session.user_metadata
        return {
            "session_id": session.session_id,
            "created_at": datetime.fromtimestamp(session.created_at, UTC).isoformat(),
            "owner": OWNER,
            "project_id": _project(session),
            "status": _status(session),
            "checkpoints_count": len(records),
            "checkpoint_storage_bytes": sum(one.size_bytes for one in records),
            "display_name": session.display_name,
            "user_metadata": None if metadata is None else {key: str(value) for key, value in metadata.items()},
        }


def _refuse_unknown(asked: SearchSessions, projects: set[str]) -> None:
    for project in asked.project_ids or ():
        if project not in projects:
            raise InputError(
                "there is no such project here",
                field="project_ids",
                value=project,
                allowed=", ".join(sorted(projects)) or "none: there are no sessions",
            )
    if any(status.type == "active" for status in asked.statuses or ()):
        raise InputError(
            "whether a session is still active is not known here: only that it was finished",
            field="statuses",
            value="active",
            allowed="client_finished, failed, cancelled",
        )


def _matches(session: Session, asked: SearchSessions) -> bool:
    metadata = session.user_metadata or {}
    return (
        _named(session, asked)
        and (asked.project_ids is None or _project(session) in asked.project_ids)
        and all(metadata.get(key) == value for key, value in (asked.user_metadata or {}).items())
        and (asked.owner.type != "user" or OWNER in asked.owner.owner_urns)
        and (asked.statuses is None or any(_stands(session, one) for one in asked.statuses))
    )


def _named(session: Session, asked: SearchSessions) -> bool:
    """True if it is the session asked for, or has every word of the name asked for."""
    if asked.session_id is None and asked.display_name is None:
        return True
    name = (session.display_name or "").lower()
    words = (asked.display_name or "").lower().split()
    return session.session_id == asked.session_id or (bool(words) and all(word in name for word in words))


def _stands(session: Session, status: Status) -> bool:
    """Nothing fails a session here: its client finishes it, or is gone and it is cancelled, or neither."""
    if session.finished is None or session.finished == CANCELLED:
        return status.type == session.finished
    if status.type != "client_finished":
        return False
    return status.reasons is None or session.finished in status.reasons


def _status(session: Session) -> dict[str, object] | None:
    if session.finished is None:
        return None
    if session.finished == CANCELLED:
        return {"type": CANCELLED, "detail": session.finished_detail}
    reason = {"type": session.finished}
    return {"type": "client_finished", "reason": reason, "detail": session.finished_detail}


def _project(session: Session) -> str:
    return session.project_id or OWNER
