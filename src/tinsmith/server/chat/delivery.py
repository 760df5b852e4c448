"""Delivery of an answer to a client, in any protocol: whole at the end, or as server-sent events on the way."""

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
"""Least seconds between two checks that a client is still there."""
TOKEN_BYTES, SAMPLE_BYTES = 64, 256

Json = dict[str, object]
Draws = AsyncGenerator[tuple[Drawn, ...], None]


class GrowingAnswer(Protocol):
    """One answer as it comes into being, in the words of a protocol."""

    def take(self, drawn: Drawn) -> None:
        """Take what was drawn, where the answer is told whole."""
        ...

    def whole(self) -> Json:
        """Return the answer, once everything was taken."""
        ...

    def opening(self) -> Iterator[bytes]:
        """The events before anything was drawn."""
        ...

    def grown(self, drawn: Drawn) -> Iterator[bytes]:
        """The events that send what was drawn."""
        ...

    def closing(self) -> Iterator[bytes]:
        """The events after the last sample has ended."""
        ...

    def failed(self, error: TinsmithError) -> bytes:
        """The event that ends a stream which cannot go on."""
        ...


async def send(request: Request, growing: GrowingAnswer, draws: Draws, turns: Turns, *, stream: bool) -> Response:
    """Answer at once or as a stream."""
    if stream:
        return StreamingResponse(events(request, growing, draws, turns), media_type="text/event-stream")
    return await whole(request, growing, draws, turns)


async def whole(request: Request, growing: GrowingAnswer, draws: Draws, turns: Turns) -> Response:
    """Answer at once; what is under way is dropped when the client is gone."""
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
    """About how many bytes are written of this."""
    scored = sum(len(drawn.scored.logprobs) for drawn in batch if drawn.scored is not None)
    return TOKEN_BYTES * (scored + sum(len(drawn.tokens) for drawn in batch)) + SAMPLE_BYTES * len(batch)


async def events(request: Request, growing: GrowingAnswer, draws: Draws, turns: Turns) -> AsyncGenerator[bytes, None]:
    """Answer as a stream; an error after its beginning is an event of its own."""
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
