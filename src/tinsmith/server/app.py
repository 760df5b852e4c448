"""The Tinker protocol over HTTP: routes that parse, hand over and answer; nothing is computed here.

A user's mistake is a 400 on submission or an error inside a future, never a status the SDK repeats (409, 429, 5xx).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from starlette.requests import ClientDisconnect

from tinsmith.engine.trace import as_json
from tinsmith.server.access.guard import Guard, Observer, error_answer
from tinsmith.server.access.keys import Keys
from tinsmith.server.access.limits import BusyError
from tinsmith.server.database.records import Failed, Finished, NoResult
from tinsmith.server.external import ROUTE as EXTERNAL_ROUTE
from tinsmith.server.listing import Listing
from tinsmith.server.metrics import Answers, metrics
from tinsmith.server.openai.missing import add_missing_routes
from tinsmith.server.openai.routes import add_openai_routes
from tinsmith.server.plain_route import post_first
from tinsmith.server.prometheus import CONTENT_TYPE, exposition
from tinsmith.server.refused import add_refused_routes
from tinsmith.server.service import Service
from tinsmith.server.session_search import SearchSessions, SessionSearch
from tinsmith.server.spread import add_spread_route
from tinsmith.server.wire.body import R, parse_json
from tinsmith.server.wire.places import Place, forward_backward_place, json_place
from tinsmith.server.wire.requests import (
    CreateModel,
    CreateSamplingSession,
    CreateSession,
    FinishSession,
    JoinSamplingSession,
    LoadWeights,
    OfFuture,
    OfModel,
    OfSession,
    OptimStep,
    Sample,
    SaveWeights,
    SaveWeightsExternal,
    SaveWeightsForSampler,
    SetTtl,
    WeightsInfo,
)
from tinsmith.server.wire.training_request import parse_forward_backward
from tinsmith.types.disk import disk_full, is_full
from tinsmith.types.errors import DiskFullError, TinsmithError, UnavailableError

DISK_FULL = 507
"""The status of a request for which there is no room on the disk."""
POLL_SECONDS = 40.0
"""How long a long poll is held; the SDK gives up on it after 45."""

Answer = Mapping[str, object]


def build_app(service: Service, *, key: str | Keys, max_body: int, observers: tuple[Observer, ...] = ()) -> FastAPI:
    """Make the application; every request but healthz needs the `key`, or one of several.

    `observers` are told of every request that is over.
    """
    app = FastAPI(title="tinsmith", docs_url=None, redoc_url=None, openapi_url=None)
    answers = Answers()
    app.add_middleware(
        Guard,
        keys=Keys.single(key) if isinstance(key, str) else key,
        max_body=max_body,
        open_paths=("/api/v1/healthz", EXTERNAL_ROUTE + "/"),
        observers=(answers, *observers),
    )
    app.exception_handler(TinsmithError)(_refuse)
    app.exception_handler(UnavailableError)(_end)
    app.exception_handler(DiskFullError)(_full)
    app.exception_handler(OSError)(_full)
    app.exception_handler(BusyError)(_put_off)
    app.exception_handler(ClientDisconnect)(_cut_off)
    _metrics_route(app, service, answers)
    _session_routes(app, service)
    _training_routes(app, service)
    _sampling_routes(app, service)
    add_spread_route(app, service)
    add_openai_routes(app, service)
    add_missing_routes(app)
    _rest_routes(app, Listing(service.store, service.engine, service.state, service.runs.external))
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    del request
    return error_answer(str(error))


async def _end(request: Request, error: Exception) -> Response:
    del request
    return JSONResponse({"error": str(error), "detail": str(error), "category": "server"}, 503)


async def _full(request: Request, error: Exception) -> Response:
    del request
    if not isinstance(error, DiskFullError):
        if not is_full(error):
            raise error
        error = disk_full(error)
    body = {"error": str(error), "detail": str(error), "category": "server"}
    return JSONResponse(body, DISK_FULL, headers={"x-should-retry": "false"})


async def _put_off(request: Request, error: Exception) -> Response:
    del request
    return error_answer(str(error), 429)


async def _cut_off(request: Request, error: Exception) -> Response:
    del request, error
    return error_answer("the connection ended before the request did")


def _metrics_route(app: FastAPI, service: Service, answers: Answers) -> None:
    async def told() -> Response:
        return Response(exposition(metrics(service, answers)), media_type=CONTENT_TYPE)

    app.get("/metrics")(told)


async def _body(model: type[R], request: Request) -> R:
    return parse_json(model, await request.body())


@contextmanager
def _counting(place: Callable[[], Place | None], count: Callable[[Place, str], None]) -> Generator[None, None, None]:
    """Let a refused request use its number up: the SDK has counted it, and what follows must not wait for it."""
    try:
        yield
    except TinsmithError as error:
        refused = place()
        if refused is not None:
            count(refused, str(error))
        raise


def _session_routes(app: FastAPI, service: Service) -> None:
    async def healthz() -> Response:
        reason = None if service.workers is None else service.workers.workers.unready
        if reason is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "unavailable", "reason": reason}, 503)

    async def config() -> Answer:
        return {"sample_join_sampling_session": True, "custom_loss_server_side": True}

    async def dynamic_config() -> Answer:
        return {"sample_cancel_enabled": True}

    async def telemetry(request: Request) -> Answer:
        await request.body()  # accepted and dropped: it would leave the machine otherwise
        return {"status": "accepted"}

    async def create_session(request: Request) -> Answer:
        body = await _body(CreateSession, request)
        session = service.store.create_session(
            tags=body.tags,
            user_metadata=body.user_metadata,
            sdk_version=body.sdk_version,
            project_id=body.project_id,
            display_name=body.display_name,
        )
        service.presence.heard(session.session_id)
        return {"session_id": session.session_id, "type": "create_session"}

    async def heartbeat(request: Request) -> Response:
        asked = await _body(OfSession, request)
        session = service.store.session(asked.session_id)
        if session is None or session.finished is not None:  # the SDK asks no more then
            gone = {"error": f"session {asked.session_id} has ended, or is not known"}
            return JSONResponse(gone, status_code=410)
        service.presence.heard(asked.session_id)
        return JSONResponse({"type": "session_heartbeat"})

    async def finish(session_id: str, request: Request) -> None:
        body = await _body(FinishSession, request)
        service.store.finish_session(session_id, reason=body.reason.type, detail=body.detail)
        service.free(session_id)

    async def retrieve(request: Request) -> Response:
        body = await _body(OfFuture, request)
        outcome = await service.futures.wait(body.request_id, POLL_SECONDS)
        if isinstance(outcome, Finished):
            return Response(outcome.body, media_type=outcome.media_type)
        if isinstance(outcome, Failed):
            return JSONResponse({"error": outcome.message, "category": outcome.category.value})
        if outcome is NoResult.PENDING:
            # As a 408 the SDK asks again in silence; with a 200 it would tell its user so, once a request and poll.
            again = {"type": "try_again", "request_id": body.request_id, "queue_state": "active"}
            return JSONResponse(again, status_code=408)
        said = "was answered, and is too old to be kept" if outcome is NoResult.FORGOTTEN else "is not known"
        return JSONResponse({"error": f"request {body.request_id} {said}", "category": "user"})

    app.get("/api/v1/healthz")(healthz)
    app.post("/api/v1/client/config")(config)
    app.post("/api/v1/client/dynamic_config")(dynamic_config)
    app.post("/api/v1/telemetry")(telemetry)
    app.post("/api/v1/create_session")(create_session)
    app.post("/api/v1/session_heartbeat")(heartbeat)
    app.post("/api/v1/sessions/{session_id}/finish")(finish)
    post_first(app, "/api/v1/retrieve_future", retrieve)


def _training_routes(app: FastAPI, service: Service) -> None:
    runs = service.runs

    async def numbered(request: Request, model: type[R], submit: Callable[[R], str]) -> str:
        body = await request.body()
        with _counting(lambda: json_place(body, "model_id"), runs.count_refused):
            return submit(parse_json(model, body))

    async def create_model(request: Request) -> Answer:
        request_id, model_id = runs.create(await _body(CreateModel, request))
        return {"request_id": request_id, "model_id": model_id}

    async def get_info(request: Request) -> Answer:
        body = await _body(OfModel, request)
        # It may have to make a tokenizer's files first.
        return await asyncio.to_thread(service.info, body.model_id)

    async def forward_backward(request: Request) -> Answer:
        body = await request.body()
        with _counting(lambda: forward_backward_place(body), runs.count_refused):
            call = await asyncio.to_thread(parse_forward_backward, body)
            return {"request_id": runs.forward_backward(call), "model_id": call.model_id}

    async def create_custom_loss(request: Request) -> Answer:
        kept = await asyncio.to_thread(runs.losses.keep, await request.body())
        return {"request_id": runs.losses.accept(kept)}

    async def optim_step(request: Request) -> Answer:
        return {"request_id": await numbered(request, OptimStep, runs.optim_step)}

    async def save_weights(request: Request) -> Answer:
        return {"request_id": await numbered(request, SaveWeights, runs.save)}

    async def save_for_sampler(request: Request) -> Answer:
        return {"request_id": await numbered(request, SaveWeightsForSampler, runs.save_for_sampler)}

    async def load_weights(request: Request) -> Answer:
        sent = await request.body()
        with _counting(lambda: json_place(sent, "model_id"), runs.count_refused):
            body = parse_json(LoadWeights, sent)
            if body.model_id is not None:
                return {"request_id": runs.load_into(body), "model_id": body.model_id}
        request_id, model_id = runs.create_from(body, await runs.read_checkpoint(body.path))
        return {"request_id": request_id, "model_id": model_id}

    async def unload_model(request: Request) -> Answer:
        body = await _body(OfModel, request)
        return {"request_id": service.unload(body.model_id), "model_id": body.model_id}

    async def trace(model_id: str, after: int = 0) -> Response:
        # Beyond the protocol: what makes two runs comparable, tensor by tensor.
        steps = as_json(runs.trace(model_id, after))
        return Response(steps, media_type="application/json")

    app.get("/api/v1/training_runs/{model_id}/trace")(trace)

    async def workers() -> Response:
        told = {"workers": []} if service.workers is None else service.workers.answer()
        return Response(msgspec.json.encode(told), media_type="application/json")

    app.get("/api/v1/tinsmith/workers")(workers)
    app.post("/api/v1/create_model")(create_model)
    app.post("/api/v1/get_info")(get_info)
    app.post("/api/v1/forward_backward")(forward_backward)
    app.post("/api/v1/create_custom_loss")(create_custom_loss)
    app.post("/api/v1/optim_step")(optim_step)
    app.post("/api/v1/save_weights")(save_weights)
    app.post("/api/v1/save_weights_for_sampler")(save_for_sampler)
    app.post("/api/v1/load_weights")(load_weights)
    app.post("/api/v1/unload_model")(unload_model)
    _external_routes(app, service)


def _external_routes(app: FastAPI, service: Service) -> None:
    external = service.runs.external

    async def save(request: Request) -> Answer:
        body = await request.body()
        with _counting(lambda: json_place(body, "model_id"), service.runs.count_refused):
            call = parse_json(SaveWeightsExternal, body)
            return {"request_id": service.runs.save_external(call), "model_id": call.model_id}

    async def urls(model_id: str, name: str, request: Request) -> Answer:
        return external.urls(model_id, name, str(request.base_url))

    async def file(model_id: str, name: str, file: str, expires: int, signature: str) -> FileResponse:
        return FileResponse(external.file(model_id, name, file, expires, signature))

    checkpoint = "/api/v1/training_runs/{model_id}/checkpoints/external_weights/{name}"
    app.post("/api/v1/save_weights_external")(save)
    app.get(checkpoint + "/external_weights_urls")(urls)
    app.get(EXTERNAL_ROUTE + "/{model_id}/{name}/{file}")(file)


def _sampling_routes(app: FastAPI, service: Service) -> None:
    samplers = service.samplers

    async def create(request: Request) -> Answer:
        body = await _body(CreateSamplingSession, request)
        created = await samplers.create(body, service.runs)
        service.presence.heard(created)
        # The SDK's client looks for a tokenizer by the name that it was made with.
        await asyncio.to_thread(service.offer_tokenizer, samplers.record(created).base_model)
        return {"sampling_session_id": created, "type": "create_sampling_session"}

    async def sample(request: Request) -> Response:
        sent = await request.body()
        with _counting(lambda: json_place(sent, "sampling_session_id"), samplers.count_refused):
            body = parse_json(Sample, sent)
        service.require_room()
        await samplers.prepare(body)
        request_id, sequences = samplers.sample(body)
        return JSONResponse({"request_id": request_id, "sample_sequence_ids": sequences})

    async def cancel(request: Request) -> Answer:
        samplers.cancel((await _body(OfFuture, request)).request_id)
        return {}

    async def join(request: Request) -> Answer:
        body = await _body(JoinSamplingSession, request)
        counter = samplers.join(body.sampling_session_id)
        return {"client_counter": counter, "type": "join_sampling_session"}

    async def sampler(sampler_id: str) -> Answer:
        record = samplers.record(sampler_id)
        await asyncio.to_thread(service.offer_tokenizer, record.base_model)
        return {"sampler_id": sampler_id, "base_model": record.base_model, "model_path": record.model_path}

    app.post("/api/v1/create_sampling_session")(create)
    post_first(app, "/api/v1/asample", sample)
    app.post("/api/v1/cancel_future")(cancel)
    app.post("/api/v1/join_sampling_session")(join)
    app.get("/api/v1/samplers/{sampler_id}")(sampler)


def _rest_routes(app: FastAPI, listing: Listing) -> None:
    async def capabilities() -> Answer:
        return listing.capabilities()

    async def training_runs(limit: int = 20, offset: int = 0, project_id: str | None = None) -> Answer:
        return listing.training_runs(limit, offset, project_id)

    async def training_run(model_id: str) -> Answer:
        return listing.training_run(model_id)

    async def run_checkpoints(model_id: str) -> Answer:
        return listing.run_checkpoints(model_id)

    async def checkpoints(limit: int = 100, offset: int = 0) -> Answer:
        return listing.checkpoints(limit, offset)

    async def delete(model_id: str, kind: str, name: str) -> Answer:
        return listing.delete(model_id, kind, name)

    async def set_ttl(model_id: str, kind: str, name: str, request: Request) -> Answer:
        body = await _body(SetTtl, request)
        return listing.set_ttl(model_id, kind, name, body.ttl_seconds)

    async def publish(model_id: str, kind: str, name: str) -> Answer:
        return listing.set_public(model_id, kind, name, public=True)

    async def unpublish(model_id: str, kind: str, name: str) -> Answer:
        return listing.set_public(model_id, kind, name, public=False)

    async def weights_info(request: Request) -> Answer:
        return listing.weights_info((await _body(WeightsInfo, request)).tinker_path)

    async def sessions(limit: int = 20, offset: int = 0) -> Answer:
        return listing.sessions(limit, offset)

    async def session(session_id: str) -> Answer:
        return listing.session(session_id)

    async def missing(path: str) -> Response:
        return error_answer(f"there is no endpoint /{path} here", 404)

    checkpoint = "/api/v1/training_runs/{model_id}/checkpoints/{kind}/{name}"
    app.get("/api/v1/get_server_capabilities")(capabilities)
    app.get("/api/v1/training_runs")(training_runs)
    app.get("/api/v1/training_runs/{model_id}")(training_run)
    app.get("/api/v1/training_runs/{model_id}/checkpoints")(run_checkpoints)
    app.get("/api/v1/checkpoints")(checkpoints)
    app.delete(checkpoint)(delete)
    app.put(checkpoint + "/ttl")(set_ttl)
    app.post(checkpoint + "/publish")(publish)
    app.delete(checkpoint + "/publish")(unpublish)
    app.post("/api/v1/weights_info")(weights_info)
    app.get("/api/v1/sessions")(sessions)
    app.get("/api/v1/sessions/{session_id}")(session)
    _search_routes(app, listing)
    add_refused_routes(app)
    app.api_route("/{path:path}", methods=["GET", "POST", "PUT", "DELETE"])(missing)


def _search_routes(app: FastAPI, listing: Listing) -> None:
    async def search(request: Request) -> Answer:
        return SessionSearch(listing.store).page(await _body(SearchSessions, request))

    async def storage(project_id: str | None = None) -> Answer:
        return listing.storage(project_id)

    app.post("/api/v1/sessions/search")(search)
    app.get("/api/v1/billing/usage/checkpoints/current")(storage)
