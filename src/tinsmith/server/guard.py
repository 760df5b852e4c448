"""What every request passes first: the key, and the largest body. Plain ASGI, because each request pays for it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tinsmith.server.anthropic.errors import PATH as ANTHROPIC_PATH
from tinsmith.server.anthropic.errors import error_answer as anthropic_answer
from tinsmith.server.openai.answers import OPENAI_PATHS, error_body

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def error_answer(message: str, status: int = 400) -> JSONResponse:
    """An error in the protocol's own words; never without a body, which the SDK would repeat."""
    return JSONResponse({"error": message, "detail": message, "category": "user"}, status)


def _refusal(path: str, message: str, status: int) -> JSONResponse:
    """The same in the words of the protocol that `path` belongs to."""
    if path.startswith(ANTHROPIC_PATH):
        return anthropic_answer(message, status)
    if not path.startswith(OPENAI_PATHS):
        return error_answer(message, status)
    code = "invalid_api_key" if status == 401 else None
    body = error_body(message, kind="invalid_request_error", param=None, code=code)
    return JSONResponse(body, status, headers={"x-should-retry": "false"})


class Guard:
    """Lets a request with the key and a body that is not too large through."""

    def __init__(
        self, app: Application, *, key: str, max_body: int, open_paths: tuple[str, ...]
    ) -> None:
        """Stand before `app`; `open_paths` need no key: whole paths, or beginnings that end in a slash."""
        self._app = app
        self._key = key.encode()
        self._max_body = max_body
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        given = headers.get(b"x-api-key") or headers.get(b"authorization", b"").removeprefix(
            b"Bearer "
        )
        if not self._is_open(scope["path"]) and not secrets.compare_digest(given, self._key):
            refused = _refusal(
                scope["path"],
                "the key is missing or wrong: set TINKER_API_KEY to the server's",
                401,
            )
            await refused(scope, receive, send)
            return
        length = headers.get(b"content-length", b"0").decode("latin-1")
        if not length.isdecimal() or int(length) > self._max_body:
            refused = _refusal(scope["path"], self._too_large(length), 413)
            await refused(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _is_open(self, path: str) -> bool:
        return any(
            path.startswith(each) if each.endswith("/") else path == each
            for each in self._open_paths
        )

    def _counted(self, receive: Receive) -> Receive:
        """Bodies in pieces do not say their length beforehand."""
        total = 0

        async def counted() -> MutableMapping[str, Any]:
            nonlocal total
            message = await receive()
            total += len(message.get("body", b""))
            if total > self._max_body:
                raise HTTPException(413, self._too_large(f"{total} and more"))
            return message

        return counted

    def _too_large(self, length: str) -> str:
        return f"the body is larger than this server takes: {length} > {self._max_body} bytes"
