"""Unsupported routes of `/v1` and its neighbours, answered with errors in OpenAI's format."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.routing import BaseRoute, Match, Route

from tinsmith.server.openai.answers import OPENAI_PATHS, error_body
from tinsmith.types.errors import perhaps

_UNSERVED = {
    "audio": "audio is not supported",
    "batches": "batches are not supported: send the requests one by one",
    "embeddings": "embeddings are not supported",
    "files": "files are not supported",
    "fine_tuning": "models are trained through the Tinker API here",
    "images": "images are not supported",
    "moderations": "moderation is not supported",
    "rerank": "ranking is not supported",
    "score": "ranking is not supported",
}
"""Unsupported routes of OpenAI and vLLM under `/v1`, with the reasons."""

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]


def add_missing_routes(app: FastAPI) -> None:
    """Answer the paths of OpenAI's and vLLM's that no earlier route of `app` serves."""
    known = tuple(app.routes)
    paths = [route.path for route in known if isinstance(route, Route) and "{" not in route.path]

    async def missing(request: Request) -> JSONResponse:
        return _answer(request.url.path, _methods(known, request), paths)

    for path in OPENAI_PATHS:
        app.api_route(f"{path}{{rest:path}}" if path.endswith("/") else path, methods=_METHODS)(missing)


def _methods(known: tuple[BaseRoute, ...], request: Request) -> str:
    """Return the methods that this path supports, if any."""
    found: set[str] = set()
    for route in known:
        if isinstance(route, Route) and route.matches(request.scope)[0] is Match.PARTIAL:
            found |= route.methods or set()
    return ", ".join(sorted(found))


def _answer(path: str, methods: str, paths: Sequence[str]) -> JSONResponse:
    """Return the error for a path with the most similar of `paths`, or for a method if the path supports others."""
    if methods:
        message, status, code = f"{path} has only {methods}", 405, "method_not_allowed"
    else:
        why = _UNSERVED.get(path.removeprefix("/v1/").split("/")[0]) or perhaps(path, paths)
        message = f"there is no {path} here{f': {why}' if why else ''}"
        status, code = 404, "unknown_url"
    body = error_body(message, kind="invalid_request_error", param=None, code=code)
    headers = {"x-should-retry": "false"} | ({"allow": methods} if methods else {})
    return JSONResponse(body, status, headers=headers)
