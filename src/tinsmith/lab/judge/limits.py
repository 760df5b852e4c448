"""Knows when the next call may be sent: calls at once, calls and tokens a minute, a server's pause, the next attempt.

The window slides. A call counts from the moment it is sent until a minute after its answer, because
nobody here knows when in between the server counts it; so no minute of the server's holds more than
the limit either. A call's tokens are reserved from above before it is sent and corrected to what the
server reports.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tinsmith.types.http_answers import retry_after as retry_after
from tinsmith.types.seeds import derive

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0  # Of a wait that nobody asked for; doubled from FIRST_WAIT_S with each attempt.


class Clock:
    """The machine's clock; a test has its own."""

    def now(self) -> float:
        """Return seconds from any fixed moment, never going back."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since 1970, to compare with a date."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of `now`; other calls go on."""
        await asyncio.sleep(seconds)


def backoff(seed: int, key: str, attempt: int) -> float:
    """Return the seconds before attempt `attempt + 1`: doubling, capped, and spread from half to whole.

    The spread is drawn from (seed, key, attempt), so that calls that failed together do not come
    back together, and the same run waits the same again.
    """
    whole = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt, 32))
    return whole * (0.5 + 0.5 * _unit(seed, key, attempt))


def after_asked(asked: float, seed: int, key: str, attempt: int) -> float:
    """Return the seconds to wait where the server asked for some: never fewer, and spread a little."""
    return asked + 0.5 * FIRST_WAIT_S * _unit(seed, key, attempt)


def _unit(seed: int, key: str, attempt: int) -> float:
    return (derive(seed, "judge", "backoff", key, attempt) >> 11) * 2.0**-53


WINDOW_S: Final = 60.0
_SLACK_S: Final = 1e-6  # Added to a wait, so that rounding does not wake it just before its moment.


@dataclass(slots=True)
class Slot:
    """One call's place in the window."""

    tokens: int  # What it counts for: reserved, then as reported.
    ended: float | None = None


class CallLimits:
    """Lets calls through, first come first served; `None` is no limit."""

    def __init__(self, clock: Clock, *, concurrency: int, rpm: int | None = None, tpm: int | None = None) -> None:
        self._clock = clock
        self._rpm = rpm
        self._tpm = tpm
        self._at_once = asyncio.Semaphore(concurrency)
        self._turn = asyncio.Lock()
        self._slots: deque[Slot] = deque()
        self._not_before = 0.0
        self._ended = asyncio.Event()

    @asynccontextmanager
    async def call(self, tokens: int) -> AsyncGenerator[Slot]:
        """Wait until a call of at most so many tokens may be sent; it lasts as long as the block.

        Set the slot's `tokens` where the answer tells them. A call that alone is above the limit is
        sent when nothing else is in the window.
        """
        async with self._at_once:
            async with self._turn:
                slot = await self._admitted(tokens)
            try:
                yield slot
            finally:
                slot.ended = self._clock.now()
                self._ended.set()

    def pause(self, seconds: float) -> None:
        """Send nothing for so long: the server asked for it."""
        self._not_before = max(self._not_before, self._clock.now() + seconds)

    async def _admitted(self, tokens: int) -> Slot:
        while (wait := self._wait(tokens)) != 0.0:
            if wait is not None:
                await self._clock.sleep(wait + _SLACK_S)
                continue
            # The window is full of calls that have no answer yet: the next answer starts a minute.
            self._ended.clear()
            await self._ended.wait()
        slot = Slot(tokens)
        if self._rpm is not None or self._tpm is not None:
            self._slots.append(slot)
        return slot

    def _wait(self, tokens: int) -> float | None:
        """Seconds until it is worth asking again, 0 for now, None for after the next answer."""
        now = self._clock.now()
        if now < self._not_before:
            return self._not_before - now
        self._slots = deque(s for s in self._slots if s.ended is None or now < s.ended + WINDOW_S)
        if self._fits(tokens):
            return 0.0
        ended = [slot.ended for slot in self._slots if slot.ended is not None]
        return min(ended) + WINDOW_S - now if ended else None

    def _fits(self, tokens: int) -> bool:
        if not self._slots:
            return True
        if self._rpm is not None and len(self._slots) >= self._rpm:
            return False
        return self._tpm is None or sum(s.tokens for s in self._slots) + tokens <= self._tpm
