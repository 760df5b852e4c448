"""Guard in front of every route: it checks the key and the size of the body, and reports finished requests.

Plain ASGI, because it runs for each request.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tinsmith.server.access.caller import Call, answering
from tinsmith.server.access.keys import Keys
from tinsmith.server.anthropic.errors import PATH as ANTHROPIC_PATH
from tinsmith.server.anthropic.errors import error_answer as anthropic_answer
from tinsmith.server.openai.answers import OPENAI_PATHS, error_body

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

KNOWN = "known"
"""Entry in a request's state that marks a valid key."""
REFUSED = "refused"
"""Route of a request that was refused before routing."""
MAX_JSON = 16 << 20
"""Most bytes of a body outside training requests, as only these hold tensors."""
GONE, BROKEN = 499, 500
"""Status of a request whose client disconnected early, and of one that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Finished request, without its headers, query and bodies."""

    name: str
    """Name of the key; empty if none was valid, or none was needed."""
    method: str
    path: str
    route: str
    """Pattern that the path matched (`/api/v1/samplers/{sampler_id}`)."""
    status: int
    num_bytes: int
    """Size of the answer's body."""
    seconds: float
    ids: tuple[str, ...] = ()
    """Parts of the path that name something: a model, a sampler, a session."""


Observer = Callable[[Answered], None]


def error_answer(message: str, status: int = 400) -> JSONResponse:
    """Return an error in the Tinker protocol's form; never without a body, since the SDK would retry."""
    return JSONResponse({"error": message, "detail": message, "category": "user"}, status)


def refuse(path: str, message: str, status: int) -> JSONResponse:
    """Return an error in the form of the protocol that `path` belongs to."""
    if path.startswith(ANTHROPIC_PATH):
        return anthropic_answer(message, status)
    if not path.startswith(OPENAI_PATHS):
        return error_answer(message, status)
    code = "invalid_api_key" if status == 401 else None
    kind = "rate_limit_error" if status == 429 else "invalid_request_error"
    body = error_body(message, kind=kind, param=None, code=code)
    return JSONResponse(body, status, headers={} if status == 429 else {"x-should-retry": "false"})


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_name("LocalHost:8000"), host_name("[::1]:80"), host_name("[::1]")
    ('localhost', '[::1]', '[::1]')
    """
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdecimal() else host.strip().lower()


def _key_name(path: str) -> str:
    """Return the setting in which clients of the protocol of `path` pass their key."""
    return "api_key" if path.startswith((ANTHROPIC_PATH, *OPENAI_PATHS)) else "TINKER_API_KEY"


@dataclass(slots=True)
class _Sending:
    """Forwarder of an answer that records its status and size."""

    send: Send
    status: int = 0
    num_bytes: int = 0

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.num_bytes += len(message.get("body", b""))
        await self.send(message)


class Guard:
    """Middleware that requires a valid key and a body within the limit."""

    def __init__(
        self,
        app: Application,
        *,
        keys: Keys,
        max_body: int,
        open_paths: tuple[str, ...],
        large_paths: tuple[str, ...] = (),
        hosts: frozenset[str] | None = None,
        most_at_once: int | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        """Stand before `app`.

        Args:
            app: the application that answers.
            keys: the valid keys.
            max_body: bytes of a body on `large_paths`; elsewhere at most MAX_JSON of them.
            open_paths: paths that need no key: whole paths, or prefixes that end in a slash.
            large_paths: whole paths.
            hosts: allowed names in the Host header; None allows any.
            most_at_once: concurrent requests per key; None for no limit.
            observers: called with every finished request.
        """
        self._app = app
        self._keys = keys
        self._max_body = max_body
        self._open_paths = open_paths
        self._large_paths = large_paths
        self._hosts = hosts
        self._most_at_once = most_at_once
        self._at_once: Counter[str] = Counter()
        self._observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject or forward a request, then report it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, sending, broken = time.perf_counter(), _Sending(send), True
        headers: dict[bytes, bytes] = dict(scope["headers"])
        call = self._call(scope["path"], headers)
        try:
            await self._answer(call, headers, scope, receive, sending)
            broken = False
        finally:
            answered = Answered(
                name="" if call is None else call.name,
                method=scope["method"],
                path=scope["path"],
                route=getattr(scope.get("route"), "path", REFUSED),
                status=sending.status or (BROKEN if broken else GONE),
                num_bytes=sending.num_bytes,
                seconds=time.perf_counter() - begin,
                ids=tuple(map(str, scope.get("path_params", {}).values())),
            )
            for observe in self._observers:
                observe(answered)

    def _call(self, path: str, headers: Mapping[bytes, bytes]) -> Call | None:
        """Return a request's caller; None if its key is not valid."""
        if self._is_open(path):
            return Call("")
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        key = self._keys.find(headers.get(b"x-api-key") or (bearer.strip() if scheme.lower() == b"bearer" else scheme))
        return None if key is None else Call(key.name, key.limits)

    async def _answer(
        self, call: Call | None, headers: Mapping[bytes, bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        path = scope["path"]
        if not self._is_addressed(headers):
            message = "this host name is not allowed here: use localhost or 127.0.0.1"
            await refuse(path, message, 421)(scope, receive, send)
            return
        if call is None:
            message = f"the key is missing or wrong: set {_key_name(path)} to the server's"
            await refuse(path, message, 401)(scope, receive, send)
            return
        most = self._max_body if path in self._large_paths else min(self._max_body, MAX_JSON)
        most = min(most, call.limits.max_body or most)
        length = headers.get(b"content-length", b"0").decode("latin-1")
        if not length.isdecimal() or int(length[:20]) > most:
            await refuse(path, _too_large(length[:20], most), 413)(scope, receive, send)
            return
        if self._most_at_once is not None and self._at_once[call.name] >= self._most_at_once:
            message = f"this key has {self._most_at_once} requests under way: wait for answers"
            await refuse(path, message, 429)(scope, receive, send)
            return
        if call.name:
            scope.setdefault("state", {})[KNOWN] = True
        self._at_once[call.name] += 1
        try:
            with answering(call):
                await self._app(scope, _counted(receive, most), send)
        finally:
            self._at_once[call.name] -= 1

    def _is_addressed(self, headers: Mapping[bytes, bytes]) -> bool:
        """True if a request names this server as its host; this stops DNS rebinding from a foreign page."""
        host = headers.get(b"host")
        return self._hosts is None or host is None or host_name(host.decode("latin-1")) in self._hosts

    def _is_open(self, path: str) -> bool:
        # The root ends in a slash too, but nothing below it is open.
        beginnings = tuple(each for each in self._open_paths if each.endswith("/") and each != "/")
        return path in self._open_paths or path.startswith(beginnings)


def _counted(receive: Receive, most: int) -> Receive:
    """Count a chunked body, which does not declare its length."""
    total = 0

    async def counted() -> MutableMapping[str, Any]:
        nonlocal total
        message = await receive()
        total += len(message.get("body", b""))
        if total > most:
            raise HTTPException(413, _too_large(f"{total} and more", most))
        return message

    return counted


def _too_large(length: str, most: int) -> str:
    return f"the body is larger than this server takes: {length} > {most} bytes"
