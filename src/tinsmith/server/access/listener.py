"""Listener that accepts connections at once, and passes each to uvicorn when its first bytes arrive.

So a silent connection costs little more than a descriptor, and many of them do not delay others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from functools import partial
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from tinsmith.server.access.connections import FIRST_SECONDS, SWEEP_SECONDS, Connections
from tinsmith.server.access.protocol import BoundedProtocol

logger = logging.getLogger(__name__)

AT_ONCE: Final = 64
"""Connections accepted before other events are handled."""
RETRY_SECONDS: Final = 0.1
"""Delay before accepting again after a failure, as when the process is out of descriptors."""


class Listener:
    """Listener on one socket, in place of asyncio's own server."""

    def __init__(
        self, listener: socket.socket, connections: Connections, config: Config, state: ServerState, app: dict[str, Any]
    ) -> None:
        """Accept from a listening socket, starting at once on the running loop."""
        self._listener = listener
        self._connections = connections
        self._config = config
        self._state = state
        self._app = app
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        listener.setblocking(False)
        self._listen()
        self._sweeping = self._loop.create_task(self._sweep())

    def close(self) -> None:
        """Stop accepting; open connections stay."""
        if not self._ended.is_set():
            self._ended.set()
            self._sweeping.cancel()
            self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """Return once no more connections are accepted."""
        await self._ended.wait()

    def _listen(self) -> None:
        if not self._ended.is_set():
            self._loop.add_reader(self._listener, self._take)

    def _take(self) -> None:
        for _ in range(AT_ONCE):
            try:
                taken, address = self._listener.accept()
            except (BlockingIOError, ConnectionError):  # there is none, or it is closed
                return
            except OSError as error:
                logger.warning("no connection can be taken: %s", error)
                self._loop.remove_reader(self._listener)
                self._loop.call_later(RETRY_SECONDS, self._listen)
                return
            silent = _Silent(self, taken, self._connections.clock())
            if not self._connections.admit(silent, str(address[0])):
                silent.cut()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._connections.sweep()

    async def open(self, silent: _Silent, taken: socket.socket) -> None:
        """Serve a connection once it sends something, after its TLS handshake if there is one."""
        make = partial(
            BoundedProtocol,
            self._config,
            self._state,
            self._app,
            self._loop,
            connections=self._connections,
            taken=silent,
        )
        secure = self._config.ssl
        timeout = None if secure is None else FIRST_SECONDS
        try:
            await self._loop.connect_accepted_socket(make, taken, ssl=secure, ssl_handshake_timeout=timeout)
        except (OSError, ssl.SSLError):
            self._connections.closed(silent)
            taken.close()


class _Silent:
    """Accepted connection that has sent nothing so far."""

    def __init__(self, listener: Listener, taken: socket.socket, now: float) -> None:
        self._listener = listener
        self._socket = taken
        self._loop = asyncio.get_running_loop()
        self._since = now
        self._opening: asyncio.Task[None] | None = None
        taken.setblocking(False)
        self._loop.add_reader(taken, self._speaks)

    def late(self, now: float) -> bool:
        """Return True if it has exceeded its deadline, or that of its handshake."""
        return now - self._since > FIRST_SECONDS

    def cut(self) -> None:
        """Close the connection, also during its handshake."""
        if self._opening is None:
            self._loop.remove_reader(self._socket)
        else:
            self._opening.cancel()
        self._socket.close()

    def _speaks(self) -> None:
        self._loop.remove_reader(self._socket)
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opening = self._loop.create_task(self._listener.open(self, self._socket))
