"""Answers of foreign servers: the delay of a retry, bodies up to a limit, and errors that repeat what was sent."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from tinsmith.types.errors import DataError


class TooLarge(DataError):
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


ENCODINGS: Final = "gzip, deflate"
"""Value of the Accept-Encoding header: the encodings that `BoundedBody` decodes."""

_WINDOWS: Final[Mapping[str, int]] = {"gzip": 47, "x-gzip": 47, "deflate": 15}
"""zlib's `wbits` by content encoding; 47 reads gzip and zlib."""


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, /, max_length: int = 0) -> bytes: ...


class BoundedBody:
    """Bytes of one body, added as they arrive.

    Raises:
        DataError: the content encoding is not one of ENCODINGS.
    """

    def __init__(self, encoding: str | None, most: int) -> None:
        named = (encoding or "identity").strip().lower()
        if named != "identity" and named not in _WINDOWS:
            raise DataError(
                "an answer is encoded in a way that was not asked for", field="Content-Encoding", value=named
            )
        self._decoder: _Decoder | None = None if named == "identity" else zlib.decompressobj(_WINDOWS[named])
        self._most = most
        self._read, self._came = bytearray(), False

    def add(self, raw: bytes) -> None:
        """Decode some bytes, up to the limit.

        Raises:
            TooLarge: the body exceeds the limit.
            DataError: it cannot be decoded.
        """
        left, self._came = self._most - len(self._read) + 1, self._came or bool(raw)
        if self._decoder is None:
            self._read += raw[:left]
        else:
            try:
                self._read += self._decoder.decompress(raw, left)
            except zlib.error as error:
                raise DataError(f"an answer cannot be decompressed: {error}") from None
        if len(self._read) > self._most:
            raise TooLarge(f"an answer is larger than {self._most / 2**20:g} MiB; the rest was not read")

    def whole(self) -> bytes:
        """Return the decoded body.

        Raises:
            DataError: the compressed body ended early.
        """
        if self._decoder is not None and self._came and not self._decoder.eof:
            raise DataError("a compressed answer ended early")
        return bytes(self._read)


def body_of(chunks: Iterable[bytes], encoding: str, most: int) -> bytes:
    """Return a decoded body of at most `most` bytes; no more are ever in memory.

    Args:
        chunks: The body as it came.
        encoding: Its Content-Encoding: none, identity, gzip or deflate.
        most: Bytes.

    Raises:
        TooLarge: it is larger.
        DataError: the encoding is unknown or invalid.
    """
    body = BoundedBody(encoding, most)
    for chunk in chunks:
        body.add(chunk)
    return body.whole()


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
