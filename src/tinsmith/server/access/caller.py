"""Caller of a request, and the ids that it may see: the one place that decides.

Every id begins with that of a session, and a session's id with the name of the key that made it (`alice.s000001`); the
key named `default`, which a server without a file of keys has, writes no name (`s000001`). So an id says whose it is
without a look-up, and what is somebody else's is answered like what does not exist, on the same way.

The guard says who calls, for as long as a request is answered. Outside of requests, on the compute thread above all,
nobody calls: the server acts for itself, and sees everything.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from tinsmith.engine.tinker_paths import SCHEME
from tinsmith.server.access.limits import UNLIMITED, Limits, Usage

DEFAULT = "default"
"""The only key's name where there is no file of keys."""


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request, and the key it came with."""

    name: str
    """The key's; empty for a request that needed none, which owns nothing."""
    limits: Limits = UNLIMITED
    at_end: ExitStack = field(default_factory=ExitStack)
    """Resources that are released when the request was answered, or its client is gone."""
    held: list[object] = field(default_factory=list[object])
    """Objects that stay in memory until then."""


_call: ContextVar[Call | None] = ContextVar("call", default=None)


@contextmanager
def answering(call: Call) -> Generator[None, None, None]:
    """Answer a request in the body: what it looks up is seen with its key's eyes."""
    token = _call.set(call)
    try:
        with call.at_end:
            yield
    finally:
        _call.reset(token)


def current_call() -> Call | None:
    """The request that is being answered; None where the server acts for itself."""
    return _call.get()


def caller() -> str | None:
    """The name of the key whose request is being answered; None where the server acts for itself."""
    call = _call.get()
    return None if call is None else call.name


def caller_limits() -> Limits:
    """Return the limits of the key whose request is being answered."""
    call = _call.get()
    return UNLIMITED if call is None else call.limits


def own_rows() -> tuple[str, tuple[str, ...]]:
    """The condition, and its values, under which a row of a table with `key_name` is seen by whoever calls."""
    name = caller()
    return ("1", ()) if name is None else ("key_name = ?", (name,))


def count_call(usage: Usage, *, num_requests: int = 1, num_samples: int = 0) -> None:
    """Count the request that is being answered as under way, as so many, until its client is answered or gone.

    Raises:
        BusyError: its key has as much under way as it may.
    """
    call = _call.get()
    if call is not None:
        ticket = object()
        usage.require_room(call.name, call.limits, num_requests=num_requests, num_samples=num_samples)
        usage.begin(ticket, call.name, num_requests=num_requests, num_samples=num_samples)
        call.at_end.callback(usage.end, ticket)


def session_prefix(name: str) -> str:
    """Return the prefix of the ids of a key's sessions."""
    return "" if name == DEFAULT else f"{name}."


def owner_of(identity: str) -> str:
    """The name of the key that an id belongs to: of a session, and of whatever is below one.

    >>> owner_of("s000001:train:0"), owner_of("alice.s000001:sample:3:0:sample")
    ('default', 'alice')
    >>> owner_of("tinker://alice.s000001:train:0/weights/a.b")
    'alice'
    """
    session = identity.removeprefix(SCHEME).partition("/")[0].partition(":")[0]
    name, dot, _ = session.rpartition(".")
    return name if dot else DEFAULT


def without_owner(identity: str) -> str:
    """An id as a server with one key would have given it: what is derived from it is the same for every key.

    >>> without_owner("tinker://alice.s000001:train:0/weights/a")
    'tinker://s000001:train:0/weights/a'
    """
    scheme = SCHEME if identity.startswith(SCHEME) else ""
    return scheme + identity.removeprefix(scheme).removeprefix(session_prefix(owner_of(identity)))


def is_own(identity: str) -> bool:
    """True if an id, if it exists, belongs to whoever calls; everything does to the server itself."""
    name = caller()
    return name is None or owner_of(identity) == name
