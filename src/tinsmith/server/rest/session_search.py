"""Session search of the SDK: filters and pages; unknown values are rejected by name."""

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
"""Owner of all sessions of a key, and the project of sessions without one."""
READ = 256
"""Sessions read from the store at a time."""


class Owner(Settings):
    """Owner in a search."""

    type: Literal["own", "accessible", "user"] = "own"
    owner_urns: FailFast[tuple[str, ...]] = ()


class Status(Settings):
    """Status of a session."""

    type: Literal["active", "cancelled", "failed", "client_finished"]
    reasons: tuple[Literal["success", "errored", "interrupted"], ...] | None = None


class After(Settings):
    """Last session of the previous page."""

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
    """Search over the store."""

    store: Store

    def page(self, request: SearchSessions) -> dict[str, object]:
        """Return one page, newest first. Sessions of a version that stored no time of creation are left out.

        Raises:
            InputError: for an unknown project, cursor or status.
        """
        _refuse_unknown(request, {project or OWNER for project in self.store.projects().values()})
        after = None if request.cursor is None else request.cursor.last_session_id
        if after is not None and self.store.session(after) is None:
            raise InputError("this cursor is unknown to this server", field="cursor.last_session_id", value=after)
        found = list(islice((one for one in self._newest(after) if _matches(one, request)), request.limit + 1))
        page = [self._summary(one) for one in found[: request.limit]]
        more = len(found) > request.limit
        cursor = (
            {"last_created_at": page[-1]["created_at"], "last_session_id": page[-1]["session_id"]} if more else None
        )
        return {"sessions": page, "next_cursor": cursor}

    def _newest(self, before: str | None) -> Iterator[Session]:
        """Yield the sessions created before this one, or before now, newest first; never all in memory."""
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


def _refuse_unknown(request: SearchSessions, projects: set[str]) -> None:
    for project in request.project_ids or ():
        if project not in projects:
            raise InputError(
                "there is no such project here",
                field="project_ids",
                value=project,
                allowed=", ".join(sorted(projects)) or "none: there are no sessions",
            )
    if any(status.type == "active" for status in request.statuses or ()):
        raise InputError(
            "whether a session is still active is not known here: only that it was finished",
            field="statuses",
            value="active",
            allowed="client_finished, failed, cancelled",
        )


def _matches(session: Session, request: SearchSessions) -> bool:
    metadata = session.user_metadata or {}
    return (
        _named(session, request)
        and (request.project_ids is None or _project(session) in request.project_ids)
        and all(key in metadata and str(metadata[key]) == value for key, value in (request.user_metadata or {}).items())
        and (request.owner.type != "user" or OWNER in request.owner.owner_urns)
        and (request.statuses is None or any(_stands(session, one) for one in request.statuses))
    )


def _named(session: Session, request: SearchSessions) -> bool:
    """True if the id matches, or the session's name has every word of the requested name."""
    if request.session_id is None and request.display_name is None:
        return True
    name = (session.display_name or "").lower()
    words = (request.display_name or "").lower().split()
    return session.session_id == request.session_id or (bool(words) and all(word in name for word in words))


def _stands(session: Session, status: Status) -> bool:
    """True if a session has this status; sessions are finished, cancelled or open, and none fails here."""
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
