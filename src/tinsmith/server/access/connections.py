"""Limits on connections: their number in all and per address, and the idle time of each.

Every client may connect. At the limit, the connection that has been idle longest is closed, those that never sent a
request with a key first. A new connection is refused only if all others are answering requests. Some descriptors are
reserved for files, so that a flood of connections does not prevent saving.
"""

from __future__ import annotations

import errno
import resource
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Protocol

from tinsmith.types.errors import ConfigError

MOST: Final = 8192
"""Most connections, however many descriptors there are."""
FILES: Final = 256
"""Descriptors reserved for files: the state, checkpoints, logs."""
DESCRIPTORS: Final = 65536
"""Target for the soft limit of descriptors, within the hard limit."""
BACKLOG: Final = 2048
SWEEP_SECONDS: Final = 1.0
FIRST_SECONDS: Final = 20.0
"""Timeout for the first byte of the first request, and for the head of a request after its first byte."""
BODY_SECONDS, BODY_BYTES = 20.0, 16 << 10
"""Least rate of a body: this many bytes in this many seconds, or its end."""


class Closable(Protocol):
    """Connection that can be closed."""

    def late(self, now: float) -> bool:
        """Return True if the connection has exceeded its deadline."""
        ...

    def cut(self) -> None:
        """Close the connection at once."""
        ...


@dataclass(slots=True)
class _Peer:
    """Connections from one address."""

    count: int = 0
    silent: OrderedDict[Closable, None] = field(default_factory=OrderedDict["Closable", None])
    """Idle connections without a request with a key so far, longest idle first."""
    known: OrderedDict[Closable, None] = field(default_factory=OrderedDict["Closable", None])
    """Other idle connections, longest idle first."""

    def longest_idle(self) -> Closable | None:
        for idle in (self.silent, self.known):
            if idle:
                return next(iter(idle))
        return None


@dataclass(slots=True)
class Connections:
    """Open connections of a server. Used on the event loop."""

    most: int = MOST
    clock: Callable[[], float] = time.monotonic
    _peers: dict[str, _Peer] = field(default_factory=dict[str, _Peer])
    _open: dict[Closable, str] = field(default_factory=dict[Closable, str])
    """Open connections and their addresses."""

    @property
    def most_of_address(self) -> int:
        """Most connections per address."""
        return max(1, self.most // 2)

    @property
    def num_open(self) -> int:
        """Number of open connections."""
        return len(self._open)

    def admit(self, connection: Closable, address: str) -> bool:
        """Make room for one more idle connection; return False if it must be refused."""
        name = _network(address)
        peer = self._peers.get(name)
        if peer is not None and peer.count >= self.most_of_address and not self._cut_one(peer):
            return False
        if len(self._open) >= self.most:
            idle = [each for each in self._peers.values() if each.longest_idle() is not None]
            if not idle or not self._cut_one(max(idle, key=lambda each: each.count)):
                return False
        peer = self._peers.setdefault(name, _Peer())
        peer.count += 1
        peer.silent[connection] = None
        self._open[connection] = name
        return True

    def replace(self, connection: Closable, other: Closable) -> None:
        """Replace a connection by another one in all counts."""
        name = self._open.pop(connection)
        silent = self._peers[name].silent
        silent.pop(connection, None)
        silent[other] = None
        self._open[other] = name

    def busy(self, connection: Closable) -> None:
        """Mark a connection as answering a request."""
        if (name := self._open.get(connection)) is not None:
            peer = self._peers[name]
            peer.silent.pop(connection, None)
            peer.known.pop(connection, None)

    def idle(self, connection: Closable, *, known: bool) -> None:
        """Mark a connection as idle; `known` is True if it sent a request with a key."""
        if (name := self._open.get(connection)) is not None:
            peer = self._peers[name]
            (peer.known if known else peer.silent)[connection] = None

    def closed(self, connection: Closable) -> None:
        """Remove a closed connection; harmless if it was removed before."""
        self.busy(connection)
        name = self._open.pop(connection, None)
        if name is not None:
            self._leave(name)

    def sweep(self) -> None:
        """Close connections that have exceeded their deadlines."""
        now = self.clock()
        for connection in [each for each in self._open if each.late(now)]:
            self.closed(connection)
            connection.cut()

    def _cut_one(self, peer: _Peer) -> bool:
        victim = peer.longest_idle()
        if victim is not None:
            self.closed(victim)
            victim.cut()
        return victim is not None

    def _leave(self, name: str) -> None:
        peer = self._peers[name]
        peer.count -= 1
        if not peer.count:
            del self._peers[name]


def raise_descriptors() -> int:
    """Raise this process's limit of descriptors as far as allowed; return the number of connections it permits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(16, min(MOST, soft - FILES))


def _network(address: str) -> str:
    """Return the network for counting connections: an IPv4 address, or one customer's 64 bits of IPv6.

    >>> _network("2001:db8:1:2:3::4") == _network("2001:db8:1:2::9"), _network("::ffff:10.0.0.1")
    (True, '10.0.0.1')
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped is not None else parsed.packed[:8].hex()


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that sends answers without delay.

    Raises:
        ConfigError: it cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named TCP, so that asyncio turns Nagle's algorithm off; with it each answer would come 40 ms late.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise _refusal(error, host, port) from None
    return listener


def listen(listener: socket.socket) -> None:
    """Begin to listen on a bound socket.

    Raises:
        ConfigError: another process bound this port too, and listens already.
    """
    try:
        listener.listen(BACKLOG)
    except OSError as error:
        raise _refusal(error, *listener.getsockname()[:2]) from None


def _refusal(error: OSError, host: str, port: int) -> ConfigError:
    is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
    fix = "choose another port, or 0 for a free one" if is_port else "choose an address of this machine: 127.0.0.1"
    field, value = ("--port", port) if is_port else ("--host", host)
    return ConfigError(f"cannot listen here: {error.strerror}", field=field, value=value, fix=fix)
