"""Answers of a server that may be any: read up to a size and for a time, and no further."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import httpx

from tinsmith.types.bodies import ENCODINGS, BoundedBody

_LARGEST: Final = 64 << 20
"""Bytes of a body, decompressed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and body of an answer."""

    status: int
    content: bytes

    @property
    def is_success(self) -> bool:
        """True for a status from 200 to 299."""
        return 200 <= self.status < 300


def answer_of(
    client: httpx.Client,
    method: str,
    path: str,
    *,
    headers: Mapping[str, str],
    seconds: float,
    body: Mapping[str, object] | None = None,
) -> Answer:
    """Send a request and read its answer, for at most so many seconds."""
    end = time.monotonic() + seconds
    with client.stream(method, path, headers={**headers, "Accept-Encoding": ENCODINGS}, json=body) as response:
        read = BoundedBody(response.headers.get("content-encoding"), _LARGEST)
        for chunk in response.iter_raw():
            read.add(chunk)
            if time.monotonic() > end:
                raise httpx.ReadTimeout(f"the answer did not end in {seconds:g} s")
        return Answer(response.status_code, read.whole())
