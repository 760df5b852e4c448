"""Answers of foreign servers: the delay of a retry, bodies up to a limit, and errors that repeat what was sent."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime

_GZIP_OR_ZLIB = 47  # window bits that let zlib know both by their first bytes


class TooLarge(ValueError):
    """Error of a body that exceeds the limit."""


def retry_after(value: str | None, date: str | None, wall: float) -> float | None:
    """Return the seconds of a Retry-After header: a number, or an HTTP date.

    A date is compared with the response's own Date, if it has one, because clocks differ. An invalid header gives None;
    a time in the past gives 0.

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


def body_of(chunks: Iterable[bytes], encoding: str, most: int) -> bytes:
    """Return a decoded body of at most `most` bytes; no more are ever in memory.

    Args:
        chunks: The body as it came.
        encoding: Its Content-Encoding: none, identity, gzip or deflate.
        most: Bytes.

    Raises:
        TooLarge: it is larger.
        ValueError: the encoding is unknown or invalid.
    """
    encoding = encoding.strip().lower()
    unpacking = None
    if encoding in ("gzip", "x-gzip", "deflate"):
        unpacking = zlib.decompressobj(_GZIP_OR_ZLIB)
    elif encoding not in ("", "identity"):
        raise ValueError(f"a body packed by {encoding[:40]}")
    body, came = bytearray(), False
    for chunk in chunks:
        came = came or bool(chunk)
        try:
            body += chunk if unpacking is None else unpacking.decompress(chunk, most + 1 - len(body))
        except zlib.error as error:
            raise ValueError(f"a body that is not {encoding}: {error}") from None
        if len(body) > most:
            raise TooLarge(f"a body of more than {most / 1e6:,.0f} MB")
    if unpacking is not None and came and not unpacking.eof:
        raise ValueError(f"a body whose {encoding} ends early")
    return bytes(body)


def _moment(date: str | None) -> float | None:
    if date is None:
        return None
    try:
        read = parsedate_to_datetime(date)
        # An HTTP date is in GMT, even without saying so.
        return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


_LEAST_QUOTE = 16  # characters that one text hardly shares with another by chance


def without_quotes(message: str, text: str, most: int) -> str:
    """Return the first characters of a message, at most so many, with an ellipsis for each part that repeats a text.

    >>> without_quotes("No answer to: the weather is fine", "Say: the weather is fine today", 200)
    'No answer to...'
    """
    found, at = "", 0
    while at < len(message) and len(found) < most:
        end = at + _LEAST_QUOTE
        if end <= len(message) and message[at:end] in text:
            while end < len(message) and message[at : end + 1] in text:
                end += 1
            found, at = f"{found}...", end
        else:
            found, at = found + message[at], at + 1
    return found[:most]
