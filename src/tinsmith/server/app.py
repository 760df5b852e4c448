"""HTTP routes of the Tinker protocol: they parse, delegate and answer, and compute nothing.

A user's mistake is a 400 on submission or an error inside a future, never a status that the SDK retries (409, 429,
5xx).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tinsmith.engine.trace import as_json
from tinsmith.server.access.caller import DEFAULT, caller, owner_of
from tinsmith.server.access.guard import Answered, Guard, Observer, error_answer, refuse
from tinsmith.server.access.keys import Keys
from tinsmith.server.access.limits import BusyError
from tinsmith.server.database.records import Failed, Finished, NoResult, Session
from tinsmith.server.external import ROUTE as EXTERNAL_ROUTE
from tinsmith.server.metrics import Answers, metrics
from tinsmith.server.openai.missing import add_missing_routes
from tinsmith.server.openai.routes import add_openai_routes
from tinsmith.server.plain_route import post_first
from tinsmith.server.prometheus import CONTENT_TYPE, exposition
from tinsmith.server.rest.listing import Listing
from tinsmith.server.rest.routes import Offset, add_rest_routes
from tinsmith.server.service import Service
from tinsmith.server.spread import add_spread_route
from tinsmith.server.wire.body import R, parse_json
from tinsmith.server.wire.numbered import A, Bodies, parse_sample, place_of_model, place_of_sampler
from tinsmith.server.wire.places import forward_backward_place
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
    SaveWeights,
    SaveWeightsExternal,
    SaveWeightsForSampler,
)
from tinsmith.server.wire.training_request import ForwardBackwardCall, parse_forward_backward
from tinsmith.types.disk import disk_full, is_full
from tinsmith.types.errors import DiskFullError, InputError, TinsmithError, UnavailableError

FORWARD_BACKWARD = "/api/v1/forward_backward"
DISK_FULL = 507
"""Status of a request that found no room on the disk."""
POLL_SECONDS = 40.0
"""Duration of a long poll in seconds; the SDK gives up after 45."""


LANDING = """tinsmith: the Tinker API, and OpenAI's, Anthropic's and vLLM's protocols, on one machine.

Every request but this one and /api/v1/healthz needs the server's key.
- tinker SDK: TINKER_BASE_URL = this address, TINKER_API_KEY = the key
- OpenAI's clients: base_url = this address + /v1, api_key = the key; GET /v1/models lists the models
- Anthropic's clients: base_url = this address
- Prometheus: GET /metrics
"""
"""Answer to a browser at the root."""

Answer = Mapping[str, object]


def build_app(
    service: Service,
    *,
    key: str | Keys,
    max_body: int,
    observers: tuple[Observer, ...] = (),
    hosts: frozenset[str] | None = None,
    most_at_once: int | None = None,
    public_url: str | None = None,
) -> FastAPI:
    """Create the application; every request except healthz needs a key of `keys`.

    `observers` are called with every finished request; links to exports begin with `public_url`, or the address that
    a request names; for `hosts` and `most_at_once` see `Guard`.
    """
    app = FastAPI(title="tinsmith", docs_url=None, redoc_url=None, openapi_url=None)
    answers = Answers()
    app.add_middleware(
        Guard,
        keys=Keys.single(key) if isinstance(key, str) else key,
        max_body=max_body,
        open_paths=("/", "/api/v1/healthz", EXTERNAL_ROUTE + "/"),
        large_paths=(FORWARD_BACKWARD,),
        hosts=hosts,
        most_at_once=most_at_once,
        observers=(answers, partial(_note, service), *observers),
    )
    app.exception_handler(TinsmithError)(_refuse)
    app.exception_handler(UnavailableError)(_end)
    app.exception_handler(DiskFullError)(_full)
    app.exception_handler(OSError)(_full)
    app.exception_handler(BusyError)(_put_off)
    app.exception_handler(ClientDisconnect)(_cut_off)
    app.exception_handler(RequestValidationError)(_refuse_address)
    app.exception_handler(HTTPException)(_refuse_otherwise)
    _metrics_route(app, service, answers)
    _health_route(app, service)
    _session_routes(app, service)
    _training_routes(app, service)
    _external_routes(app, service, public_url)
    _sampling_routes(app, service)
    add_spread_route(app, service)
    add_openai_routes(app, service)
    add_missing_routes(app)
    add_rest_routes(app, service.turns, Listing(service.store, service.engine, service.state, service.runs.external))
    return app


def _note(service: Service, answered: Answered) -> None:
    """Count a request for anything of a session as its client's sign of life."""
    for identity in answered.ids:
        if owner_of(identity) == answered.name:
            service.presence.note(identity)


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


async def _refuse_address(request: Request, error: Exception) -> Response:
    """Answer an invalid path or query parameter."""
    assert isinstance(error, RequestValidationError), "the handler of no other"
    first = error.errors()[0]
    value = str(first.get("input"))[:80]
    wrong = InputError("a request is wrong", field=str(first["loc"][-1]), value=value, allowed=first["msg"])
    return refuse(request.url.path, str(wrong), 400)


async def _refuse_otherwise(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "the handler of no other"
    return refuse(request.url.path, str(error.detail), error.status_code)


def _metrics_route(app: FastAPI, service: Service, answers: Answers) -> None:
    async def answer() -> Response:
        return Response(exposition(metrics(service, answers)), media_type=CONTENT_TYPE)

    app.get("/metrics")(answer)


def _health_route(app: FastAPI, service: Service) -> None:
    async def healthz() -> Response:
        reason = None if service.workers is None else service.workers.workers.unready
        if reason is None:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "unavailable", "reason": reason}, 503)

    async def landing() -> Response:
        return Response(LANDING, media_type="text/plain")

    app.get("/api/v1/healthz")(healthz)
    app.get("/")(landing)


def _session_routes(app: FastAPI, service: Service) -> None:
    bodies = Bodies(service.turns, service.store)

    async def config() -> Answer:
        return {"sample_join_sampling_session": True, "custom_loss_server_side": True}

    async def dynamic_config() -> Answer:
        return {"sample_cancel_enabled": True}

    async def telemetry(request: Request) -> Answer:
        async for _ in request.stream():
            pass  # accepted and dropped: telemetry must not leave the machine
        return {"status": "accepted"}

    async def create_session(request: Request) -> Answer:
        body = await bodies.read(CreateSession, request)

        def create() -> Session:
            return service.store.create_session(
                tags=body.tags,
                user_metadata=body.user_metadata,
                sdk_version=body.sdk_version,
                project_id=body.project_id,
                display_name=body.display_name,
            )

        with service.presence.place_of(caller() or DEFAULT):
            session = await service.turns.run(create)  # on a thread: it waits for the disk
            service.presence.began(session.session_id)
        return {"session_id": session.session_id, "type": "create_session"}

    async def heartbeat(request: Request) -> Response:
        body = await bodies.read(OfSession, request)
        session = service.store.session(body.session_id)
        if session is None or session.finished is not None:  # the SDK does not ask again then
            gone = {"error": f"session {body.session_id} has ended, or is not known"}
            return JSONResponse(gone, status_code=410)
        service.presence.note(body.session_id)
        return JSONResponse({"type": "session_heartbeat"})

    async def finish(session_id: str, request: Request) -> None:
        body = await bodies.read(FinishSession, request)
        await service.turns.run(
            lambda: service.store.finish_session(session_id, reason=body.reason.type, detail=body.detail)
        )
        async with service.store.on_the_loop():
            service.free(session_id)

    async def retrieve(request: Request) -> Response:
        body = await bodies.read(OfFuture, request)
        outcome = await service.futures.wait(body.request_id, POLL_SECONDS)
        if isinstance(outcome, Finished):
            return Response(outcome.body, media_type=outcome.media_type)
        if isinstance(outcome, Failed):
            return JSONResponse({"error": outcome.message, "category": outcome.category.value})
        if outcome is NoResult.PENDING:
            # With a 408 the SDK retries silently; with a 200 it would print a message once per request and poll.
            again = {"type": "try_again", "request_id": body.request_id, "queue_state": "active"}
            return JSONResponse(again, status_code=408)
        state = "was answered, and its result has expired" if outcome is NoResult.FORGOTTEN else "is not known"
        return JSONResponse({"error": f"request {body.request_id} {state}", "category": "user"})

    app.post("/api/v1/client/config")(config)
    app.post("/api/v1/client/dynamic_config")(dynamic_config)
    app.post("/api/v1/telemetry")(telemetry)
    app.post("/api/v1/create_session")(create_session)
    app.post("/api/v1/session_heartbeat")(heartbeat)
    app.post("/api/v1/sessions/{session_id}/finish")(finish)
    post_first(app, "/api/v1/retrieve_future", retrieve)


def _numbered(
    service: Service, model: type[R], submit: Callable[[R], A]
) -> Callable[[Request], Coroutine[None, None, A]]:
    """Return a handler that reads a model's request and submits it."""
    bodies, parse = Bodies(service.turns, service.store), partial(parse_json, model)

    async def numbered(request: Request) -> A:
        return await bodies.numbered(request, parse, submit, place=place_of_model, count=service.runs.count_refused)

    return numbered


def _training_routes(app: FastAPI, service: Service) -> None:
    runs, bodies = service.runs, Bodies(service.turns, service.store)

    async def create_model(request: Request) -> Answer:
        body = await bodies.read(CreateModel, request)
        async with service.store.on_the_loop():
            request_id, model_id = runs.create(body)
        return {"request_id": request_id, "model_id": model_id}

    async def get_info(request: Request) -> Answer:
        body = await bodies.read(OfModel, request)
        # It may have to write a tokenizer's files first.
        info = await asyncio.to_thread(service.info, body.model_id)
        service.presence.note(body.model_id)
        return info

    def submit(call: ForwardBackwardCall) -> Answer:
        return {"request_id": runs.forward_backward(call), "model_id": call.model_id}

    async def forward_backward(request: Request) -> Answer:
        return await bodies.numbered(
            request, parse_forward_backward, submit, place=forward_backward_place, count=runs.count_refused
        )

    async def create_custom_loss(request: Request) -> Answer:
        uploaded = await service.turns.read(request, runs.losses.keep)
        return {"request_id": await runs.losses.accept(uploaded, service.turns)}

    def load(body: LoadWeights) -> tuple[LoadWeights, tuple[str, str] | None]:
        return body, runs.created_before(body) if body.model_id is None else (runs.load_into(body), body.model_id)

    submit_load = _numbered(service, LoadWeights, load)

    async def load_weights(request: Request) -> Answer:
        body, loaded = await submit_load(request)
        if loaded is None:
            checkpoint = await runs.read_checkpoint(body.path)
            async with service.store.on_the_loop():
                loaded = runs.create_from(body, checkpoint)
        request_id, model_id = loaded
        return {"request_id": request_id, "model_id": model_id}

    async def unload_model(request: Request) -> Answer:
        body = await bodies.read(OfModel, request)
        async with service.store.on_the_loop():
            return {"request_id": service.unload(body.model_id), "model_id": body.model_id}

    app.post("/api/v1/create_model")(create_model)
    app.post("/api/v1/get_info")(get_info)
    app.post(FORWARD_BACKWARD)(forward_backward)
    app.post("/api/v1/create_custom_loss")(create_custom_loss)
    app.post("/api/v1/load_weights")(load_weights)
    app.post("/api/v1/unload_model")(unload_model)
    _saving_routes(app, service)
    _watching_routes(app, service)


def _saving_routes(app: FastAPI, service: Service) -> None:
    """Add the routes of steps and saves, which are answered by a request id alone."""
    runs = service.runs
    submit_step = _numbered(service, OptimStep, runs.optim_step)
    submit_save = _numbered(service, SaveWeights, runs.save)
    submit_save_for_sampler = _numbered(service, SaveWeightsForSampler, runs.save_for_sampler)

    async def optim_step(request: Request) -> Answer:
        return {"request_id": await submit_step(request)}

    async def save_weights(request: Request) -> Answer:
        return {"request_id": await submit_save(request)}

    async def save_for_sampler(request: Request) -> Answer:
        return {"request_id": await submit_save_for_sampler(request)}

    app.post("/api/v1/optim_step")(optim_step)
    app.post("/api/v1/save_weights")(save_weights)
    app.post("/api/v1/save_weights_for_sampler")(save_for_sampler)


def _watching_routes(app: FastAPI, service: Service) -> None:
    async def trace(model_id: str, after: Offset = 0) -> Response:
        # Beyond the protocol: traces, which make two runs comparable, tensor by tensor.
        steps = as_json(service.runs.trace(model_id, after))
        return Response(steps, media_type="application/json")

    async def workers() -> Response:
        answer = {"workers": []} if service.workers is None else service.workers.answer()
        return Response(msgspec.json.encode(answer), media_type="application/json")

    app.get("/api/v1/training_runs/{model_id}/trace")(trace)
    app.get("/api/v1/tinsmith/workers")(workers)


def _external_routes(app: FastAPI, service: Service, public_url: str | None) -> None:
    external = service.runs.external

    def submit(call: SaveWeightsExternal) -> Answer:
        return {"request_id": service.runs.save_external(call), "model_id": call.model_id}

    submit_save = _numbered(service, SaveWeightsExternal, submit)

    async def save(request: Request) -> Answer:
        return await submit_save(request)

    async def urls(model_id: str, name: str, request: Request) -> Answer:
        return external.urls(model_id, name, public_url or str(request.base_url))

    async def file(model_id: str, name: str, file: str, expires: Offset, signature: str) -> FileResponse:
        return FileResponse(external.file(model_id, name, file, expires, signature))

    checkpoint = "/api/v1/training_runs/{model_id}/checkpoints/external_weights/{name}"
    app.post("/api/v1/save_weights_external")(save)
    app.get(checkpoint + "/external_weights_urls")(urls)
    app.get(EXTERNAL_ROUTE + "/{model_id}/{name}/{file}")(file)


def _sampling_routes(app: FastAPI, service: Service) -> None:
    samplers, bodies = service.samplers, Bodies(service.turns, service.store)

    async def create(request: Request) -> Answer:
        body = await bodies.read(CreateSamplingSession, request)
        created = await samplers.create(body, service.runs, service.turns)
        service.presence.note(created)
        # The SDK's client looks for a tokenizer under the name that it was created with.
        await asyncio.to_thread(service.offer_tokenizer, samplers.record(created).base_model)
        return {"sampling_session_id": created, "type": "create_sampling_session"}

    async def sample(request: Request) -> Response:
        body = await bodies.numbered(
            request, parse_sample, lambda body: body, place=place_of_sampler, count=samplers.count_refused
        )
        service.require_room()
        request_id, sequences = await samplers.sample(body, service.turns)
        return JSONResponse({"request_id": request_id, "sample_sequence_ids": sequences})

    async def cancel(request: Request) -> Answer:
        request_id = (await bodies.read(OfFuture, request)).request_id
        samplers.cancel(request_id)
        service.presence.note(request_id)
        return {}

    async def join(request: Request) -> Answer:
        body = await bodies.read(JoinSamplingSession, request)
        async with service.store.on_the_loop():
            counter = samplers.join(body.sampling_session_id)
        service.presence.note(body.sampling_session_id)
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
