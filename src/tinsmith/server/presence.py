"""Presence of clients: sessions of silent clients are ended, so that their models do not stay in memory.

The SDK sends a heartbeat every ten seconds; other clients show presence by requests and by waiting for answers.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import takewhile

from tinsmith.server.access.caller import owner_of
from tinsmith.types.errors import InputError

SILENT_HOURS = 12.0
"""Default timeout in hours: after a night's sleep of the client's computer, its models are still there."""

MOST_SESSIONS = 16_384
"""Most open sessions per key."""


@dataclass(slots=True)
class Presence:
    """Time of each session's last sign of life. Used on the event loop."""

    silent_seconds: float = SILENT_HOURS * 3600
    """Seconds of silence after which a session's client counts as gone; 0 for never."""
    clock: Callable[[], float] = time.monotonic
    _signs: OrderedDict[str, float] = field(default_factory=OrderedDict[str, float])
    """Sessions by time of their last sign of life, oldest first."""
    _sessions: Counter[str] = field(default_factory=Counter[str])
    """Number of sessions per key."""
    _suspected: frozenset[str] = frozenset()

    def began(self, session: str) -> None:
        """Add an open session."""
        self._sessions[owner_of(session)] += 1
        self._signs[session] = self.clock()

    def note(self, identity: str) -> None:
        """Record a sign of life: from the id of an open session, or of anything below one."""
        session = identity.partition(":")[0]
        if session in self._signs:  # results of a session that has ended may still be fetched
            self._signs[session] = self.clock()
            self._signs.move_to_end(session)

    @contextmanager
    def place_of(self, owner: str) -> Generator[None]:
        """Count a session that is being created for a key, until it has begun.

        Raises:
            InputError: the key has reached the limit, which is named.
        """
        if self._sessions[owner] >= MOST_SESSIONS:
            raise InputError(
                "this key has too many sessions",
                field="create_session",
                value=MOST_SESSIONS,
                allowed=f"{MOST_SESSIONS} that have not ended",
                fix="close clients that are not used any more",
            )
        self._sessions[owner] += 1
        try:
            yield
        finally:
            self._sessions[owner] -= 1

    def ended(self, session_id: str) -> None:
        """Remove a session."""
        if self._signs.pop(session_id, None) is not None:
            self._sessions[owner_of(session_id)] -= 1

    def silent(self) -> tuple[str, ...]:
        """Return the sessions that have been silent too long, until they have `ended`.

        Only sessions that were silent at the previous call too: after this process was suspended for hours, clients'
        messages are yet to be read.
        """
        latest = self.clock() - self.silent_seconds
        found = tuple(
            takewhile(lambda session: self._signs[session] <= latest, self._signs) if self.silent_seconds else ()
        )
        certain = tuple(session for session in found if session in self._suspected)
        self._suspected = frozenset(found)
        return certain
