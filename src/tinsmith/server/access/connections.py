"""Connections: how many there may be, in all and from one address, and how long each may say nothing.

Whoever connects is let in. Where there are as many connections as there may be, the one that has been idle longest is
closed, one that never sent a request with a key before those that did; only where all of them are answering requests
is the new one refused. Files keep descriptors of their own: a flood of connections keeps nobody from saving.
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
"""Connections at most, however many descriptors there are."""
FILES: Final = 256
"""Descriptors kept for files: the state, checkpoints, logs."""
DESCRIPTORS: Final = 65536
"""The soft limit of descriptors is raised to so many, where the hard one allows it."""
SWEEP_SECONDS: Final = 1.0
FIRST_SECONDS: Final = 20.0
"""For the first request's first byte, and for a request's head from its first byte to its last."""
BODY_SECONDS, BODY_BYTES = 20.0, 16 << 10
"""A body that is read brings so many bytes in so many seconds, or its end."""


class Closable(Protocol):
    """A connection."""

    def late(self, now: float) -> bool:
        """Return True if it has said nothing for too long."""
        ...

    def cut(self) -> None:
        """Close it at once."""
        ...


@dataclass(slots=True)
class _Peer:
    """The connections from one address."""

    count: int = 0
    silent: OrderedDict[Closable, None] = field(default_factory=OrderedDict["Closable", None])
    """Idle ones that sent no request with a key so far, the longest idle first."""
    known: OrderedDict[Closable, None] = field(default_factory=OrderedDict["Closable", None])
    """Other idle ones."""

    def longest_idle(self) -> Closable | None:
        for idle in (self.silent, self.known):
            if idle:
                return next(iter(idle))
        return None


@dataclass(slots=True)
class Connections:
    """All connections of a server. Used on the event loop."""

    most: int = MOST
    clock: Callable[[], float] = time.monotonic
    _peers: dict[str, _Peer] = field(default_factory=dict[str, _Peer])
    _open: dict[Closable, str] = field(default_factory=dict[Closable, str])
    """Every connection, and where it comes from."""

    @property
    def most_of_address(self) -> int:
        """Connections that one address may have."""
        return max(1, self.most // 2)

    @property
    def num_open(self) -> int:
        """Connections that are open."""
        return len(self._open)

    def admit(self, connection: Closable, address: str) -> bool:
        """Make room for one more, which is idle; return False if it is to be refused."""
        name = _network(address)
        peer = self._peers.get(name)
        if peer is not None and peer.count >= self.most_of_address and not self._cut_one(peer):
            return False
        if len(self._open) >= self.most:
            largest = max(self._peers.values(), key=lambda each: each.count)
            if not self._cut_one(largest):
                return False
        peer = self._peers.setdefault(name, _Peer())
        peer.count += 1
        peer.silent[connection] = None
        self._open[connection] = name
        return True

    def replace(self, connection: Closable, other: Closable) -> None:
        """Count another in the place of one."""
        name = self._open.pop(connection)
        silent = self._peers[name].silent
        silent.pop(connection, None)
        silent[other] = None
        self._open[other] = name

    def busy(self, connection: Closable) -> None:
        """Note that a connection has a request under way."""
        if (name := self._open.get(connection)) is not None:
            peer = self._peers[name]
            peer.silent.pop(connection, None)
            peer.known.pop(connection, None)

    def idle(self, connection: Closable, *, known: bool) -> None:
        """Note that it has none any more; `known`: it sent one with a key."""
        if (name := self._open.get(connection)) is not None:
            peer = self._peers[name]
            (peer.known if known else peer.silent)[connection] = None

    def closed(self, connection: Closable) -> None:
        """Note that a connection has ended; nothing if that is known."""
        self.busy(connection)
        name = self._open.pop(connection, None)
        if name is not None:
            self._leave(name)

    def sweep(self) -> None:
        """Close those that have said nothing for too long."""
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
    """Raise this process's limit of descriptors as far as it may; return how many connections there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(16, min(MOST, soft - FILES))


def _network(address: str) -> str:
    """Return the network that connections are counted by: an IPv4 address, or the 64 bits of IPv6 of one customer.

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
    """Return a socket that is bound there, on which answers leave at once.

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
        is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        fix = "choose another port, or 0 for a free one" if is_port else "choose an address of this machine: 127.0.0.1"
        field, value = ("--port", port) if is_port else ("--host", host)
        raise ConfigError(f"cannot listen here: {error.strerror}", field=field, value=value, fix=fix) from None
    return listener
