"""Knows how long to wait: the clock, the wait before another attempt, and what Retry-After asks for."""

from __future__ import annotations

import asyncio
import math
import time
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from tinsmith.types.seeds import derive

FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 30.0
"""Of a wait that nobody asked for; doubled from FIRST_WAIT_S with each attempt."""


class Clock(Protocol):
    """The time, and waiting; a test has its own."""

    def now(self) -> float:
        """Seconds from any fixed moment, never going back."""
        ...

    def wall(self) -> float:
        """Seconds since 1970, to compare with a date."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that many seconds of `now`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the monotonic time."""
        return time.monotonic()

    def wall(self) -> float:
        """Return the time of day."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait; other calls go on."""
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


def retry_after(value: str | None, date: str | None, wall: float) -> float | None:
    """Return the seconds that a Retry-After header asks for: a number, or an HTTP date.

    A date is held against the response's own Date where there is one, because clocks differ. What
    cannot be read asks for nothing; a moment that has passed asks for 0.

    >>> retry_after("1.5", None, 0.0)
    1.5
    >>> retry_after("Thu, 01 Jan 1970 00:00:10 GMT", None, 4.0)
    6.0
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        moment = _moment(value)
        if moment is None:
            return None
        answered = _moment(date)
        seconds = moment - (wall if answered is None else answered)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _moment(date: str | None) -> float | None:
    if date is None:
        return None
    try:
        read = parsedate_to_datetime(date)
        # An HTTP date is in GMT, also where it does not say so.
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
