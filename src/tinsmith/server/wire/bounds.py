"""Limits on the content of a request, checked by size: on a body before it is parsed, on lists, on stored metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from tinsmith.types.errors import InputError

T = TypeVar("T")

MOST: Mapping[str, int] = MappingProxyType(
    {"values": 1 << 18, "members of objects": 1 << 16, "lists and objects": 1 << 16}
)
"""Most elements of a JSON body: each takes tens to hundreds of bytes of memory, and parsing blocks the process."""
MAX_TURNS: Final = 4096
"""Most messages in a chat, and parts in a message."""
MAX_TOOLS: Final = 512
MAX_METADATA: Final = 64 << 10
"""Most bytes of a user's metadata for a session, model or checkpoint, as JSON."""
_PIECE: Final = 256 << 10
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


def require_bounds(body: bytes) -> None:
    """Reject JSON that would be far larger in memory than as text, before it is parsed.

    Raises:
        InputError: it has too many elements.
    """
    counts = _counts(body)
    if any(counts[name] > most for name, most in MOST.items()):
        counts = _outside_texts(body)  # characters inside strings do not count
    for name, most in MOST.items():
        if counts[name] > most:
            raise InputError(
                "a request holds too much", field="body", value=f"{counts[name]} {name}", allowed=f"up to {most}"
            )


def bounded(about: T) -> T:
    """Return a user's metadata, unless it is too large to store.

    Raises:
        InputError: it is too large.
    """
    size = len(json.dumps(about, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MAX_METADATA:
        raise InputError(
            "this is too large to be stored", value=f"{size} bytes", allowed=f"up to {MAX_METADATA} bytes of JSON"
        )
    return about


def _all_text(metadata: object) -> object:
    """Reject the first value that is not text, instead of listing all."""
    if isinstance(metadata, dict):
        for name, value in cast("dict[str, object]", metadata).items():
            if not isinstance(value, str):
                field = f"user_metadata.{name[:80]}"
                raise InputError("metadata values must be texts", field=field, value=value, allowed="a text")
    return metadata


FailFast = Annotated[T, Field(fail_fast=True)]
"""List validated up to its first error: each reported error takes a thousand bytes."""
TurnList = Annotated[list[T], Field(fail_fast=True, max_length=MAX_TURNS)]
ToolList = Annotated[list[T], Field(fail_fast=True, max_length=MAX_TOOLS)]
Metadata = Annotated[Mapping[str, JsonValue], AfterValidator(bounded)]
TextMetadata = Annotated[Mapping[str, str], BeforeValidator(_all_text), AfterValidator(bounded)]
ShortText = Annotated[str, Field(max_length=4096)]


def _outside_texts(body: bytes) -> dict[str, int]:
    """Yield the parts outside strings, piece by piece: a copy of a body would double its size."""
    counts, begin = dict.fromkeys(MOST, 0), b""
    for at in range(0, len(body), _PIECE):
        piece = begin + body[at : at + _PIECE]
        escape = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        # The quote closes a string that continues beyond the piece; otherwise it opens one, which is dropped.
        rest = _TEXT.sub(b"", piece.removesuffix(escape) + b'"\0')
        begin = (b'"' if rest.endswith(b"\0") else b"") + escape
        for name, count in _counts(rest).items():
            counts[name] += count
    return counts


def _counts(body: bytes) -> dict[str, int]:
    return {
        "values": body.count(b","),
        "members of objects": body.count(b":"),
        "lists and objects": body.count(b"[") + body.count(b"{"),
    }
