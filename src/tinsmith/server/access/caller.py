"""Caller of a request, and the rule for the ids that it may access.

Every id begins with that of a session, and a session's id with the name of the key that made it (`alice.s000001`); the
key named `default`, which a server without a file of keys has, writes no name (`s000001`). So an id names its owner
without a look-up, and an id of another key is treated exactly like one that does not exist.

The guard sets the caller for the duration of a request. Outside of requests, mainly on the compute thread, there is no
caller: the server acts for itself and may access everything.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tinsmith.engine.tinker_paths import SCHEME
from tinsmith.server.access.limits import UNLIMITED, Limits, Usage

DEFAULT = "default"
"""Name of the only key if there is no file of keys."""


@dataclass(slots=True)
class Call:
    """HTTP request in progress, and its key."""

    name: str
    """Name of the key; empty for a request that needed none, which owns nothing."""
    limits: Limits = UNLIMITED
    at_end: ExitStack = field(default_factory=ExitStack)
    """Resources released when the request was answered or its client disconnected."""
    held: list[object] = field(default_factory=list[object])
    """Objects that stay in memory until then."""
    content: bytes | None = None
    """Digest of a numbered request's body; a repeated one has the same."""


_call: ContextVar[Call | None] = ContextVar("call", default=None)


@contextmanager
def answering(call: Call) -> Generator[None, None, None]:
    """Answer a request in the body: look-ups are restricted to its key."""
    token = _call.set(call)
    try:
        with call.at_end:
            yield
    finally:
        _call.reset(token)


def current_call() -> Call | None:
    """Return the current request; None if the server acts for itself."""
    return _call.get()


def caller() -> str | None:
    """Return the name of the current request's key; None if the server acts for itself."""
    call = _call.get()
    return None if call is None else call.name


def caller_limits() -> Limits:
    """Return the limits of the current request's key."""
    call = _call.get()
    return UNLIMITED if call is None else call.limits


def call_content() -> bytes | None:
    """Return the digest of the current request's body, if it is a numbered one."""
    call = _call.get()
    return None if call is None else call.content


def own_rows() -> tuple[str, tuple[str, ...]]:
    """Return the SQL condition and its values that restrict a table with `key_name` to the caller's rows."""
    name = caller()
    return ("1", ()) if name is None else ("key_name = ?", (name,))


def count_call(usage: Usage, *, num_requests: int = 1, num_samples: int = 0) -> None:
    """Count the current request, as `num_requests` of them, until it is answered or its client disconnects.

    Raises:
        BusyError: its key has reached a limit on concurrent work.
    """
    call = _call.get()
    if call is not None:
        ticket = object()
        usage.require_room(call.name, call.limits, num_requests=num_requests, num_samples=num_samples)
        usage.begin(ticket, call.name, num_requests=num_requests, num_samples=num_samples)
        call.at_end.callback(usage.end, ticket)


def session_prefix(name: str) -> str:
    """Return the prefix of all session ids of a key."""
    return "" if name == DEFAULT else f"{name}."


def owner_of(identity: str) -> str:
    """Return the name of the key that owns an id: that of a session or of anything below one.

    >>> owner_of("s000001:train:0"), owner_of("alice.s000001:sample:3:0:sample")
    ('default', 'alice')
    >>> owner_of("tinker://alice.s000001:train:0/weights/a.b")
    'alice'
    """
    session = identity.removeprefix(SCHEME).partition("/")[0].partition(":")[0]
    name, dot, _ = session.rpartition(".")
    return name if dot else DEFAULT


def without_owner(identity: str) -> str:
    """Return an id without its owner, so that values derived from it are the same for every key.

    >>> without_owner("tinker://alice.s000001:train:0/weights/a")
    'tinker://s000001:train:0/weights/a'
    """
    scheme = SCHEME if identity.startswith(SCHEME) else ""
    return scheme + identity.removeprefix(scheme).removeprefix(session_prefix(owner_of(identity)))


def is_own(identity: str) -> bool:
    """True if an id, should it exist, belongs to the caller; always True for the server itself."""
    name = caller()
    return name is None or owner_of(identity) == name
