"""`POST /api/v1/tinsmith/spread`: exact figures of the whole distribution after every token of a text.

It is not part of the Tinker protocol. The sampler computes it from the same rows of logits as a prompt's
log-probabilities, so the bits do not depend on the batch or the worker.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Final, Self

import msgspec
import numpy as np
from fastapi import FastAPI, Request, Response
from pydantic import Field, model_validator

from tinsmith.engine.sequences import Group
from tinsmith.server.access.caller import DEFAULT, caller, caller_limits, count_call
from tinsmith.server.access.guard import GONE
from tinsmith.server.chat.delivery import LOOK_SECONDS
from tinsmith.server.direct import Direct, Found
from tinsmith.server.service import Service
from tinsmith.server.submissions import Submissions
from tinsmith.server.wire.body import Request as Body
from tinsmith.server.wire.body import TokenId, parse_json
from tinsmith.server.wire.bounds import FailFast
from tinsmith.types.errors import BackendError, InputError
from tinsmith.types.sampling import SampleRequest, SamplingParams, Spread

ROUTE: Final = "/api/v1/tinsmith/spread"
MOST: Final = 256
"""Most texts in one request."""

_Text = Annotated[FailFast[list[TokenId]], Field(min_length=2)]


class SpreadRequest(Body):
    """POST tinsmith/spread."""

    model: str
    """Served base model, or a `tinker://` path."""
    sequences: Annotated[FailFast[list[_Text]], Field(min_length=1, max_length=MOST)]
    """Token ids of each text, two or more."""
    targets: FailFast[list[FailFast[list[TokenId]]]] | None = None
    """Target after each token of each text but the last; None for the text's own next tokens."""

    begins: FailFast[list[Annotated[int, Field(ge=1)]]] | None = None
    """First target of each text, counted from 0; None for the second token, and so all of them."""

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        for name, values in (("targets", self.targets), ("begins", self.begins)):
            if values is not None and len(values) != len(self.sequences):
                raise InputError(
                    f"{name} and texts differ in number",
                    field=name,
                    value=len(values),
                    allowed=f"{len(self.sequences)}, or none at all",
                )
        for place, (begin, text) in enumerate(zip(self.begins or (), self.sequences, strict=False)):
            if begin >= len(text):
                raise InputError(
                    "this text has no positions to score",
                    field=f"begins[{place}]",
                    value=begin,
                    allowed=f"1 to {len(text) - 1}",
                )
        return self

    def sampler_requests(self) -> list[SampleRequest]:
        """Return the sampler's requests, which draw nothing."""
        nothing = SamplingParams(seed=0, max_tokens=0)
        targets = self.targets or [tokens[1:] for tokens in self.sequences]
        begins = self.begins or [1] * len(self.sequences)
        requests: list[SampleRequest] = []
        for tokens, about, begin in zip(self.sequences, targets, begins, strict=True):
            wanted = np.array(about, np.int32)
            wanted[: begin - 1] = -1
            requests.append(SampleRequest(prompt=np.array(tokens, np.int32), params=nothing, spread_targets=wanted))
        return requests


class Figures(msgspec.Struct, frozen=True):
    """Figures of one text, one per token; null where no target was given, and for the logarithm of zero."""

    rank: list[int | None]
    entropy: list[float | None]
    logprob: list[float | None]
    argmax: list[int | None]


class SpreadAnswer(msgspec.Struct, frozen=True):
    """Answer with the figures of each text, in order."""

    sequences: list[Figures]


def add_spread_route(app: FastAPI, service: Service) -> None:
    """Add the route."""
    direct = Direct(service)

    async def answer(request: Request) -> Response:
        def parse(sent: bytes) -> tuple[str, list[SampleRequest]]:
            body = parse_json(SpreadRequest, sent)
            return body.model, body.sampler_requests()

        model, requests = await service.turns.read(request, parse)
        service.require_room()
        found = await direct.find(model)
        _check(service, found, requests)
        spreads = await _computed(service, found, requests, request.is_disconnected)
        if spreads is None:
            return Response(status_code=GONE)

        def encoded() -> Response:
            answer = SpreadAnswer([_figures(one) for one in spreads])
            return Response(msgspec.json.encode(answer), media_type="application/json")

        return await service.turns.run(encoded, size=sum(one.ranks.nbytes for one in spreads))

    app.post(ROUTE)(answer)


def _check(service: Service, found: Found, requests: Sequence[SampleRequest]) -> None:
    """Reject texts that cannot be computed; others count as in progress until answered or disconnected."""
    limits = caller_limits()
    for request in requests:
        limits.check_sampling(1, service.engine.check(found.name, request))
    count_call(service.futures.usage, num_samples=len(requests))


async def _computed(
    service: Service, found: Found, requests: Sequence[SampleRequest], has_left: Callable[[], Awaitable[bool]]
) -> list[Spread] | None:
    """Return the figures in the order of the texts; None, and the work is dropped, if the client disconnects.

    Raises:
        BackendError: the server or a worker failed.
    """
    loop, owner = asyncio.get_running_loop(), caller() or DEFAULT
    waiting: list[asyncio.Future[Spread]] = [loop.create_future() for _ in requests]

    def settle(place: int, group: Group) -> None:
        future = waiting[place]
        if future.done():
            return
        found = None if group.result is None else group.result.prompt_spread
        if group.failure is not None or found is None:
            future.set_exception(group.failure or BackendError("the texts were not computed"))
        else:
            future.set_result(found)

    def ended(place: int, group: Group) -> None:
        loop.call_soon_threadsafe(settle, place, group)

    def fail(error: Exception) -> None:
        for future in [future for future in waiting if not future.done()][:1]:
            future.set_exception(error)

    def failed(error: Exception) -> None:
        loop.call_soon_threadsafe(fail, error)

    submissions = Submissions(
        samplers=service.samplers,
        name=found.name,
        policy=found.loaded.policy,
        owner=owner,
        count=len(requests),
        request=requests.__getitem__,
        ended=ended,
        failed=failed,
    )
    computed = asyncio.gather(*waiting)
    try:
        service.worker.post(submissions.start)
        while not computed.done():
            await asyncio.wait((computed,), timeout=LOOK_SECONDS)
            if not computed.done() and await has_left():
                return None
        return computed.result()
    finally:
        computed.cancel()
        service.worker.post(submissions.drop)


def _figures(one: Spread) -> Figures:
    return Figures(
        rank=[None, *(value or None for value in one.ranks.tolist())],
        entropy=[None, *map(_finite, one.entropies.tolist())],
        logprob=[None, *map(_finite, one.logprobs.tolist())],
        argmax=[None, *(value if value >= 0 else None for value in one.best.tolist())],
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
