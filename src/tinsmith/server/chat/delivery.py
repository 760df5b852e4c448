"""Delivery of an answer to a client, in any protocol: whole, or as server-sent events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import Protocol

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from tinsmith.server.access.turns import Turns
from tinsmith.server.draws import Drawn
from tinsmith.types.errors import TinsmithError

LOOK_SECONDS = 0.4
"""Least seconds between two checks that a client is still connected."""
TOKEN_BYTES, SAMPLE_BYTES = 64, 256

Json = dict[str, object]
Draws = AsyncGenerator[tuple[Drawn, ...], None]


class GrowingAnswer(Protocol):
    """Answer in progress, in the format of a protocol."""

    def take(self, drawn: Drawn) -> None:
        """Add drawn tokens to an answer that is sent whole."""
        ...

    def whole(self) -> Json:
        """Return the complete answer."""
        ...

    def opening(self) -> Iterator[bytes]:
        """Yield the events before any token."""
        ...

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """Yield the events for drawn tokens."""
        ...

    def closing(self) -> Iterator[bytes]:
        """Yield the events after the last sample ended."""
        ...

    def failed(self, error: TinsmithError) -> bytes:
        """Return the event for an error that ends the stream."""
        ...


async def send(request: Request, growing: GrowingAnswer, draws: Draws, turns: Turns, *, stream: bool) -> Response:
    """Answer whole or as a stream, as requested."""
    if stream:
        return StreamingResponse(events(request, growing, draws, turns), media_type="text/event-stream")
    return await whole(request, growing, draws, turns)


async def whole(request: Request, growing: GrowingAnswer, draws: Draws, turns: Turns) -> Response:
    """Answer whole; the work is dropped if the client disconnects."""
    taken: list[Drawn] = []
    looked = time.monotonic()
    async with aclosing(draws):
        async for batch in draws:
            taken += batch
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                if await request.is_disconnected():
                    return Response(status_code=499)

    def answer() -> Response:
        for drawn in taken:
            growing.take(drawn)
        return JSONResponse(growing.whole())

    return await turns.run(answer, size=_size(taken))


def _grown(growing: GrowingAnswer, batch: Sequence[Drawn]) -> list[bytes]:
    return [event for drawn in batch for event in growing.grown(drawn)]


def _size(batch: Sequence[Drawn]) -> int:
    """Estimate the size of an answer in bytes."""
    scored = sum(len(drawn.scored.logprobs) for drawn in batch if drawn.scored is not None)
    return TOKEN_BYTES * (scored + sum(len(drawn.tokens) for drawn in batch)) + SAMPLE_BYTES * len(batch)


async def events(request: Request, growing: GrowingAnswer, draws: Draws, turns: Turns) -> AsyncGenerator[bytes, None]:
    """Answer as a stream; an error after its start is an event."""
    async with aclosing(draws):
        try:
            for event in growing.opening():
                yield event
            async for batch in draws:
                grown = partial(_grown, growing, batch)
                for event in await turns.run(grown, size=_size(batch)):
                    yield event
                if not batch and await request.is_disconnected():
                    return
        except TinsmithError as error:
            yield growing.failed(error)
            return
    for event in growing.closing():
        yield event
