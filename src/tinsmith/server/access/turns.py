"""Work whose time grows with a request's size: on threads beside the event loop, one per key at a time.

A key has one piece of work in progress at a time, and all keys together a few, in order of arrival: many pieces of one
key delay only that key. The memory of a key's bodies is limited in the same way: the next body is not read until there
is room. Memory freed by a large piece is returned to the system: the C library would retain the largest amount ever
used, for each thread.
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
"""Work up to this size in bytes, or the like, runs on the event loop: a thread would take longer."""
LARGE: Final = 256 << 10
"""Work from this size on takes tens of megabytes of memory."""
AT_ONCE: Final = 2
"""Concurrent pieces of work over all keys, which share one interpreter with the event loop."""
ROOM: Final = 16 << 20
"""Bytes that a key's bodies may take together until they are answered; a single larger one is allowed."""


@dataclass(slots=True, eq=False)
class _Room:
    """Bytes shared by a key's bodies."""

    entrance: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock of the first body in the queue for room."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0

    async def take(self, size: int) -> None:
        """Reserve room for a body; one larger than the whole room has it alone."""
        async with self.entrance:
            while self.held and self.held + size > ROOM:
                self.left.clear()
                await self.left.wait()
            self.held += size

    def leave(self, size: int) -> None:
        """Release room."""
        self.held -= size
        self.left.set()


@dataclass(slots=True, eq=False)
class _Own:
    """Work of one key in progress."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading: _Room = field(default_factory=_Room)
    unanswered: _Room = field(default_factory=_Room)
    users: int = 0


class Turns:
    """Threads for work, shared fairly between keys. Methods are called on the event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="tinsmith-work")
        self._free = asyncio.Semaphore(AT_ONCE)
        self._keys: dict[str, _Own] = {}

    async def run(self, work: Callable[[], T], *, size: int = SMALL + 1) -> T:
        """Return the result of `work`; a small `size`, in bytes or the like, runs at once."""
        if size <= SMALL:
            return work()
        with self._own() as own:
            async with own.turn, self._free:
                context = copy_context()  # sets the caller
                loop = asyncio.get_running_loop()
                try:
                    return await loop.run_in_executor(self._threads, context.run, work)
                finally:
                    if size > LARGE:
                        await loop.run_in_executor(self._threads, give_back_freed_memory)

    async def read(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """Read a request's body, and return the result of `parse`.

        Until the request is answered, it counts with the size of its body.
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
            return await self.run(lambda: parse(body.pop()), size=length)  # the body is unreferenced then

    def close(self) -> None:
        """Accept no more work."""
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
    """Assemble a body in one buffer, so that it is in memory only once."""
    body = BytesIO()
    async for piece in request.stream():
        body.write(piece)
    return body.getvalue()
