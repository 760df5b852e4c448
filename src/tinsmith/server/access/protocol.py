"""HTTP protocol of one connection: uvicorn's, with limits on a request's head and deadlines for its parts.

httptools buffers incomplete parts, so a head is counted as it arrives: the bytes since the last chunk of a body, or the
last end of a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from tinsmith.server.access.connections import BODY_BYTES, BODY_SECONDS, FIRST_SECONDS, Closable, Connections
from tinsmith.server.access.guard import KNOWN, error_answer

MAX_URL: Final = 8 << 10
"""Most bytes in a request's address, including its query."""
MAX_HEAD: Final = 64 << 10
"""Most bytes in a request's head, or in anything else outside a body."""
MAX_HEADERS: Final = 128
MAX_PIPELINED: Final = 16
"""Most requests that may wait on one connection for earlier answers."""

_WHY: Mapping[int, str] = MappingProxyType(
    {
        400: "this is no HTTP request, or too many at once on one connection",
        414: f"the address is longer than this server takes: {MAX_URL} bytes",
        431: f"the headers are more than this server takes: {MAX_HEADERS} of {MAX_HEAD} bytes in all",
    }
)


class _RefusedError(Exception):
    """Error that ends the parsing of a request; `refused` holds the reason."""


class BoundedProtocol(HttpToolsProtocol):
    """Connection with limits and deadlines."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
        taken: Closable,
    ) -> None:
        """Serve a connection of `connections`, which is `taken` there until this is open."""
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections
        self._taken = taken
        self._refused = 400
        self._num_headers = 0
        self._header_bytes = 0
        self._no_body = 0
        """Bytes since the last chunk of a body, or the last end of a request."""
        self._since: float | None = connections.clock()
        """Clock time at which the current wait began; None without a wait, or for one without a deadline here."""
        self._brought = 0
        """Bytes of a body since then."""
        self._reading_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection."""
        super().connection_made(transport)
        self._all.replace(self._taken, self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection."""
        self._all.closed(self)
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received bytes; too many outside a body end the connection."""
        self._no_body += len(data)
        if self._since is None and not self._reading_body:
            self._since = self._all.clock()  # the first bytes of another request
        super().data_received(data)
        if self._no_body > MAX_HEAD and not self.transport.is_closing():
            self._refused = 431
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Start counting a head."""
        super().on_message_begin()
        self._num_headers = self._header_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Reject an address that is too long."""
        if len(self.url) + len(url) > MAX_URL:
            self._refuse(414)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Reject headers that are too many or too large in all, including trailers."""
        self._num_headers += 1
        self._header_bytes += len(name) + len(value)
        if self._num_headers > MAX_HEADERS or self._header_bytes > MAX_HEAD:
            self._refuse(431)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Forward the request; its body has a deadline from now on."""
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refuse(400)
        self._all.busy(self)
        self._begin_body()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Process a chunk of a body."""
        self._no_body = 0
        self._brought += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the deadline: the server has to answer now."""
        self._no_body = 0
        self._since, self._reading_body = None, False
        super().on_message_complete()
        self._rest()

    def on_response_complete(self) -> None:
        """Become idle, unless the rest of the body is still to come."""
        super().on_response_complete()
        self._rest()

    def _rest(self) -> None:
        if self.cycle.response_complete and not self._reading_body:
            self._all.idle(self, known=KNOWN in self.scope.get("state", {}))

    def _begin_body(self) -> None:
        self._since, self._brought, self._reading_body = self._all.clock(), 0, True

    def late(self, now: float) -> bool:
        """Return True if the awaited bytes are overdue."""
        if self._since is None and self.transport.is_closing():
            self._since = now  # the last write has yet to be read
        if self._since is None or now - self._since <= (BODY_SECONDS if self._reading_body else FIRST_SECONDS):
            return False
        if not self._reading_body or self.cycle.response_complete:
            return True
        # Pipelined bytes that are not read yet cannot arrive.
        waits = self.flow.read_paused or self.cycle.waiting_for_100_continue
        late = self._brought < BODY_BYTES and not waits
        self._begin_body()
        return late

    def cut(self) -> None:
        """Close the connection, and drop data that its client has not read."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer malformed input with a 400, and close the connection."""
        del msg
        if self.transport.is_closing():
            return
        answer = error_answer(_WHY[self._refused], self._refused)
        head = [STATUS_LINE[self._refused], b"connection: close\r\n"]
        head += [b"%s: %s\r\n" % each for each in answer.raw_headers]
        self.transport.write(b"".join([*head, b"\r\n", bytes(answer.body)]))
        self.transport.close()

    def _refuse(self, status: int) -> None:
        self._refused = status
        raise _RefusedError
