"""Work in proportion to what a request holds: on threads beside the event loop, each key's in turn.

A key has one piece of work under way at a time, and all keys together a few, first come first served among them: many
pieces of one key make only that key wait. What a key's bodies take is bounded in the same way: the next one stays with
its client until there is room. Memory that a large piece has freed goes back to the system: the C library would keep
the most that a piece ever took, for each thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final, TypeVar

from starlette.requests import Request

from tinsmith.engine.cluster.freed_memory import give_back_freed_memory
from tinsmith.server.access.caller import caller, current_call

T = TypeVar("T")

SMALL: Final = 16 << 10
"""Bytes, or about as much work, that are done on the event loop at once: a thread would take longer."""
LARGE: Final = 256 << 10
"""Bytes, or the like, of work that takes tens of megabytes of memory."""
AT_ONCE: Final = 2
"""Pieces of work at once, of all keys: they share one interpreter with the event loop."""
ROOM: Final = 16 << 20
"""Bytes that a key's bodies may have together while they are read, and then until they are answered; one alone may have
more."""


@dataclass(slots=True, eq=False)
class _Room:
    """Bytes that bodies share."""

    entrance: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever waits for room: the others wait behind it."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0

    async def take(self, size: int) -> None:
        """Take room for a body; one that is larger than all there is has it alone."""
        async with self.entrance:
            while self.held and self.held + size > ROOM:
                self.left.clear()
                await self.left.wait()
            self.held += size

    def leave(self, size: int) -> None:
        """Give room back."""
        self.held -= size
        self.left.set()


@dataclass(slots=True, eq=False)
class _Own:
    """Work of one key under way."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading: _Room = field(default_factory=_Room)
    unanswered: _Room = field(default_factory=_Room)
    users: int = 0


class Turns:
    """Threads for work, and whose turn it is. Methods are called on the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tinsmith-work")
        self._free = asyncio.Semaphore(AT_ONCE)
        self._keys: dict[str, _Own] = {}

    async def run(self, work: Callable[[], T], *, size: int = SMALL + 1) -> T:
        """Return what `work` does; where its `size`, in bytes or the like, is small it is done at once."""
        if size <= SMALL:
            return work()
        with self._own() as own:
            async with own.turn, self._free:
                context = copy_context()  # who calls
                loop = asyncio.get_running_loop()
                try:
                    return await loop.run_in_executor(self._threads, context.run, work)
                finally:
                    if size > LARGE:
                        await loop.run_in_executor(self._threads, give_back_freed_memory)

    async def read(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """Read a request's body, and return what `parse` makes of it.

        Until the request is answered, what it holds is taken for as large as its body.
        """
        content_length = request.headers.get("content-length", "")
        size = int(content_length) if content_length.isdecimal() else ROOM
        if size <= SMALL:
            return parse(await request.body())
        call = current_call()
        with ExitStack() as read:
            answered = read if call is None else call.at_end
            own = answered.enter_context(self._own())
            await own.reading.take(size)
            try:
                body = [await _whole(request)]
                length = len(body[0])
                await own.unanswered.take(length)
                answered.callback(own.unanswered.leave, length)
            finally:
                own.reading.leave(size)
            return await self.run(lambda: parse(body.pop()), size=length)  # nothing holds the body then

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def _own(self) -> Generator[_Own]:
        name = caller() or ""
        own = self._keys.setdefault(name, _Own())
        own.users += 1
        try:
            yield own
        finally:
            own.users -= 1
            if not own.users:
                del self._keys[name]


async def _whole(request: Request) -> bytes:
    """A body, put together in one place: it is never there twice."""
    body = BytesIO()
    async for piece in request.stream():
        body.write(piece)
    return body.getvalue()
