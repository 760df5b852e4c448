"""Unsupported endpoints of the SDK, each rejected by name: a 404 would look like an outdated server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response

from tinsmith.types.errors import InputError

REFUSED = (
    ("GET", "/api/v1/audit", "this server has no audit log"),
    ("GET", "/api/v1/billing/usage/events", "there is no billing on this server"),
    ("POST", "/api/v1/auth/token", "keys are not accounts here: there are no tokens to sign"),
    ("GET", "/api/v1/auth/apikey/me", "keys are not accounts here: there is no account data"),
    ("DELETE", "/api/v1/auth/apikey/me", "keys belong to the server: they cannot be revoked over the API"),
    ("POST", "/api/v1/copy_weights", "copies would be of the same server: load the source instead"),
    ("POST", "/api/v1/retrieve_futures", "futures are fetched one by one, as the client's configuration says"),
    ("PUT", "/api/v1/sessions/{session_id}/project", "a session keeps the project it began with"),
    ("GET", "/api/v1/sessions/{session_id}/trace_export", "this server stores no traces of sessions"),
)
"""Method, path and reason of each."""


def add_refused_routes(app: FastAPI) -> None:
    """Answer each with a 400 and the reason."""
    for method, path, why in REFUSED:
        app.api_route(path, methods=[method])(_refusing(method, path, why))


def _refusing(method: str, path: str, why: str) -> Callable[[Request], Awaitable[Response]]:
    async def refuse(request: Request) -> Response:
        await request.body()
        raise InputError(why, field="endpoint", value=f"{method} {path}")

    return refuse
