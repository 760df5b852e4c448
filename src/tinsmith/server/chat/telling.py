"""How an answer reaches a client, whatever its protocol: told whole at the end, or as server-sent events on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Protocol

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from tinsmith.server.draws import Drawn
from tinsmith.types.errors import TinsmithError

Json = dict[str, object]
Draws = AsyncGenerator[tuple[Drawn, ...], None]


class Telling(Protocol):
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
        """The events that tell what was drawn."""
        ...

    def closing(self) -> Iterator[bytes]:
        """The events after the last sample has ended."""
        ...

    def failed(self, error: TinsmithError) -> bytes:
        """The event that ends a stream which cannot go on."""
        ...


async def tell(request: Request, telling: Telling, draws: Draws, *, stream: bool) -> Response:
    """Answer at once or as a stream."""
    if stream:
        return StreamingResponse(events(request, telling, draws), media_type="text/event-stream")
    return await whole(request, telling, draws)


async def whole(request: Request, telling: Telling, draws: Draws) -> Response:
    """Answer at once; what is under way is dropped when the client is gone."""
    async with aclosing(draws):
        async for batch in draws:
            for drawn in batch:
                telling.take(drawn)
            if not batch and await request.is_disconnected():
                return Response(status_code=499)
    return JSONResponse(telling.whole())


async def events(request: Request, telling: Telling, draws: Draws) -> AsyncGenerator[bytes, None]:
    """Answer as a stream; an error after its beginning is an event of its own."""
    async with aclosing(draws):
        try:
            for event in telling.opening():
                yield event
            async for batch in draws:
                for drawn in batch:
                    for event in telling.grown(drawn):
                        yield event
                if not batch and await request.is_disconnected():
                    return
        except TinsmithError as error:
            yield telling.failed(error)
            return
    for event in telling.closing():
        yield event
