"""Presence of clients: a client that was killed says no goodbye, and its models would stay in memory.

The SDK says every ten seconds that it lives; other clients are heard of by what they ask, and by waiting for an answer.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile

from tinsmith.server.access.caller import owner_of
from tinsmith.types.errors import InputError

SILENT_HOURS = 12.0
"""A night: a computer that sleeps as long as its owner finds its models where they were."""

MOST_SESSIONS = 16_384
"""Sessions of one key at once."""


@dataclass(slots=True)
class Presence:
    """Time of each session's last sign of life. Used on the event loop."""

    silent_seconds: float = SILENT_HOURS * 3600
    """After so long a session's client is taken for gone; 0: never."""
    clock: Callable[[], float] = time.monotonic
    _heard: OrderedDict[str, float] = field(default_factory=OrderedDict[str, float])
    """The one that was silent longest first."""
    _sessions: Counter[str] = field(default_factory=Counter[str])
    """Sessions of each key among them."""
    _suspected: frozenset[str] = frozenset()

    def heard(self, identity: str) -> None:
        """Note a sign of life: the id of a session, or of anything below one."""
        session = identity.partition(":")[0]
        if session not in self._heard:
            self._sessions[owner_of(session)] += 1
        self._heard[session] = self.clock()
        self._heard.move_to_end(session)

    def require_room(self, owner: str) -> None:
        """Refuse one more session of a key that has as many as it may.

        Raises:
            InputError: naming the limit.
        """
        if self._sessions[owner] >= MOST_SESSIONS:
            raise InputError(
                "this key has too many sessions",
                field="create_session",
                value=MOST_SESSIONS,
                allowed=f"{MOST_SESSIONS} that have not ended",
                fix="close clients that are not used any more",
            )

    def ended(self, session_id: str) -> None:
        """Expect nothing of a session any more."""
        if self._heard.pop(session_id, None) is not None:
            self._sessions[owner_of(session_id)] -= 1

    def silent(self) -> tuple[str, ...]:
        """Return the sessions that said nothing for so long, until they have `ended`.

        Only those of which that was so at the last call too: where this process was stopped for hours, what clients
        said meanwhile is still to be read.
        """
        latest = self.clock() - self.silent_seconds
        found = tuple(
            takewhile(lambda session: self._heard[session] <= latest, self._heard) if self.silent_seconds else ()
        )
        certain = tuple(session for session in found if session in self._suspected)
        self._suspected = frozenset(found)
        return certain
