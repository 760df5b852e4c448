"""Work in proportion to what a request holds: on threads beside the event loop, each key's in turn.

A key has one piece of work under way at a time, and all keys together a few, first come first served among them: many
pieces of one key make only that key wait. What a key's bodies take while they are read is bounded in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Final, TypeVar

from starlette.requests import Request

from tinsmith.server.access.caller import caller

T = TypeVar("T")

SMALL: Final = 16 << 10
"""Bytes, or about as much work, that are done on the event loop at once: a thread would take longer."""
AT_ONCE: Final = 2
"""Pieces of work at once, of all keys: they share one interpreter with the event loop."""
ROOM: Final = 32 << 20
"""Bytes that a key's bodies may have together while they are read; one alone may have more."""


@dataclass(slots=True, eq=False)
class _Own:
    """Work of one key under way."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    entrance: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by whoever waits for room: the others wait behind it."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    held: int = 0
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
        async with self._own() as own, own.turn, self._free:
            context = copy_context()  # who calls
            return await asyncio.get_running_loop().run_in_executor(self._threads, context.run, work)

    async def read(self, request: Request, parse: Callable[[bytes], T]) -> T:
        """Read a request's body, and return what `parse` makes of it."""
        length = request.headers.get("content-length", "")
        size = int(length) if length.isdecimal() else ROOM
        if size <= SMALL:
            return parse(await request.body())
        async with self._own() as own, _room(own, size):
            body = b"".join([piece async for piece in request.stream()])
            return await self.run(lambda: parse(body), size=len(body))

    def close(self) -> None:
        """Take no more work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    @asynccontextmanager
    async def _own(self) -> AsyncGenerator[_Own]:
        name = caller() or ""
        own = self._keys.setdefault(name, _Own())
        own.users += 1
        try:
            yield own
        finally:
            own.users -= 1
            if not own.users:
                del self._keys[name]


@asynccontextmanager
async def _room(own: _Own, size: int) -> AsyncGenerator[None]:
    """Hold room for a body; one that is larger than all there is has it alone."""
    async with own.entrance:
        while own.held and own.held + size > ROOM:
            own.left.clear()
            await own.left.wait()
        own.held += size
    try:
        yield
    finally:
        own.held -= size
        own.left.set()
