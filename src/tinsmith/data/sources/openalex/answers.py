"""Interpretation of the OpenAlex API's answers other than a page.

A 429 has two meanings: too many requests in a second, and a day's budget used up, which comes back at midnight UTC.
They are distinguished by the headers' remaining budget, by the requested delay (hours mean the day), or by the message.
"""

from __future__ import annotations

import enum
import time
from http import HTTPStatus

import httpx

from tinsmith.types.http_answers import retry_after

PATIENCE = 300.0
"""Most seconds of a requested delay; a 429 with a longer one means the day's budget."""
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY)


class Meaning(enum.Enum):
    """Meaning of an answer that is not a page."""

    LATER = enum.auto()
    """Wait and retry."""
    BUDGET = enum.auto()
    BAD_KEY = enum.auto()
    FORBIDDEN = enum.auto()
    REFUSED = enum.auto()
    """Any other failure; a retry will not help."""


def meaning(answer: httpx.Response) -> Meaning:
    """Return the meaning of an answer other than 200."""
    code = answer.status_code
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return Meaning.BUDGET if _budget_is_used_up(answer) else Meaning.LATER
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR or code in _PASSING:
        return Meaning.LATER
    if code == HTTPStatus.UNAUTHORIZED:
        return Meaning.BAD_KEY
    return Meaning.FORBIDDEN if code == HTTPStatus.FORBIDDEN else Meaning.REFUSED


def seconds_to_wait(answer: httpx.Response) -> float | None:
    """Return the seconds in Retry-After, given as a number or a date."""
    return retry_after(answer.headers.get("retry-after"), answer.headers.get("date"), time.time())


def _budget_is_used_up(answer: httpx.Response) -> bool:
    """True if a 429 means the day's budget: by the remaining budget, the delay, or the message."""
    wait = seconds_to_wait(answer)
    if wait is not None and wait > PATIENCE:
        return True
    needed = _number(answer, "x-ratelimit-credits-required") or 1.0
    left = _number(answer, "x-ratelimit-remaining")
    if left is not None:
        return left < needed
    money = _number(answer, "x-ratelimit-remaining-usd")
    if money is not None:
        return money <= 0
    return wait is None and "budget" in answer.text.lower()


def _number(answer: httpx.Response, header: str) -> float | None:
    text = answer.headers.get(header, "")
    try:
        return float(text)
    except ValueError:
        return None
