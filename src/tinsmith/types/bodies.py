"""Bodies of network answers, decoded as they arrive and limited in size."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final, Protocol

from tinsmith.types.errors import DataError

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
        self._read = bytearray()

    def add(self, raw: bytes) -> None:
        """Decode some bytes, up to the limit.

        Raises:
            DataError: the body exceeds the limit, or cannot be decoded.
        """
        left = self._most - len(self._read) + 1
        if self._decoder is None:
            self._read += raw[:left]
        else:
            try:
                self._read += self._decoder.decompress(raw, left)
            except zlib.error as error:
                raise DataError(f"an answer cannot be decompressed: {error}") from None
        if len(self._read) > self._most:
            raise DataError(f"an answer is larger than {self._most / 2**20:g} MiB; the rest was not read")

    def whole(self) -> bytes:
        """Return the decoded body.

        Raises:
            DataError: the compressed body ended early.
        """
        if self._decoder is not None and self._read and not self._decoder.eof:
            raise DataError("a compressed answer ended early")
        return bytes(self._read)
