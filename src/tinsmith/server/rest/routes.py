"""Routes for paged listings, and for single checkpoints and sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse

from tinsmith.server.access.guard import error_answer
from tinsmith.server.access.turns import Turns
from tinsmith.server.rest.listing import Listing
from tinsmith.server.rest.refused import add_refused_routes
from tinsmith.server.rest.session_search import SearchSessions, SessionSearch
from tinsmith.server.wire.numbered import Bodies
from tinsmith.server.wire.requests import SetTtl, WeightsInfo

MOST_LISTED = 10_000
"""Most entries per page."""
Limit = Annotated[int, Query(ge=0, le=MOST_LISTED)]
Offset = Annotated[int, Query(ge=0, lt=2**63)]

Answer = Mapping[str, object]


def add_rest_routes(app: FastAPI, turns: Turns, listing: Listing) -> None:
    """Add these routes, and reject every path that no earlier route serves."""
    bodies = Bodies(turns, listing.store)

    async def answer(listed: Callable[..., Answer], *about: object) -> Response:
        """Answer with a listing, computed on a thread as it may be long."""
        return await turns.run(lambda: JSONResponse(listed(*about)))

    async def capabilities() -> Answer:
        return listing.capabilities()

    async def training_runs(limit: Limit = 20, offset: Offset = 0, project_id: str | None = None) -> Response:
        return await answer(listing.training_runs, limit, offset, project_id)

    async def training_run(model_id: str) -> Response:
        return await answer(listing.training_run, model_id)

    async def run_checkpoints(model_id: str) -> Response:
        return await answer(listing.run_checkpoints, model_id)

    async def checkpoints(limit: Limit = 100, offset: Offset = 0) -> Response:
        return await answer(listing.checkpoints, limit, offset)

    async def weights_info(request: Request) -> Response:
        return await answer(listing.weights_info, (await bodies.read(WeightsInfo, request)).tinker_path)

    async def sessions(limit: Limit = 20, offset: Offset = 0) -> Response:
        return await answer(listing.sessions, limit, offset)

    async def session(session_id: str) -> Response:
        return await answer(listing.session, session_id)

    async def missing(path: str) -> Response:
        return error_answer(f"there is no endpoint /{path} here", 404)

    app.get("/api/v1/get_server_capabilities")(capabilities)
    app.get("/api/v1/training_runs")(training_runs)
    app.get("/api/v1/training_runs/{model_id}")(training_run)
    app.get("/api/v1/training_runs/{model_id}/checkpoints")(run_checkpoints)
    app.get("/api/v1/checkpoints")(checkpoints)
    app.post("/api/v1/weights_info")(weights_info)
    app.get("/api/v1/sessions")(sessions)
    app.get("/api/v1/sessions/{session_id}")(session)
    _checkpoint_routes(app, turns, listing)
    _search_routes(app, turns, listing)
    add_refused_routes(app)
    app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])(missing)


def _checkpoint_routes(app: FastAPI, turns: Turns, listing: Listing) -> None:
    async def delete(model_id: str, kind: str, name: str) -> Response:
        return await turns.run(lambda: JSONResponse(listing.delete(model_id, kind, name)))

    async def set_ttl(model_id: str, kind: str, name: str, request: Request) -> Answer:
        body = await Bodies(turns, listing.store).read(SetTtl, request)
        return await turns.run(lambda: listing.set_ttl(model_id, kind, name, body.ttl_seconds))

    async def publish(model_id: str, kind: str, name: str) -> Answer:
        return await turns.run(lambda: listing.set_public(model_id, kind, name, public=True))

    async def unpublish(model_id: str, kind: str, name: str) -> Answer:
        return await turns.run(lambda: listing.set_public(model_id, kind, name, public=False))

    checkpoint = "/api/v1/training_runs/{model_id}/checkpoints/{kind}/{name}"
    app.delete(checkpoint)(delete)
    app.put(checkpoint + "/ttl")(set_ttl)
    app.post(checkpoint + "/publish")(publish)
    app.delete(checkpoint + "/publish")(unpublish)


def _search_routes(app: FastAPI, turns: Turns, listing: Listing) -> None:
    async def search(request: Request) -> Response:
        body = await Bodies(turns, listing.store).read(SearchSessions, request)
        return await turns.run(lambda: JSONResponse(SessionSearch(listing.store).page(body)))

    async def storage(project_id: str | None = None) -> Response:
        return await turns.run(lambda: JSONResponse(listing.storage(project_id)))

    app.post("/api/v1/sessions/search")(search)
    app.get("/api/v1/billing/usage/checkpoints/current")(storage)
