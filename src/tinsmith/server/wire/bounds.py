"""Bounds of what a request may hold, known from sizes: of a body before it is read, of lists, of what is kept."""

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
"""Limits on a JSON body: each of these takes tens to hundreds of bytes of memory, and while they are read nothing else
runs in this process."""
MAX_TURNS: Final = 4096
"""Messages of a chat, and pieces of a message."""
MAX_TOOLS: Final = 512
MAX_METADATA: Final = 64 << 10
"""Bytes of what a user says about a session, a model or a checkpoint, as JSON."""
_PIECE: Final = 256 << 10
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


def require_bounds(body: bytes) -> None:
    """Refuse JSON that would be far larger in memory than as text, before it is read.

    Raises:
        InputError: it holds too much.
    """
    counts = _counts(body)
    if any(counts[name] > most for name, most in MOST.items()):
        counts = _outside_texts(body)  # what stands in texts is only text
    for name, most in MOST.items():
        if counts[name] > most:
            raise InputError(
                "a request holds too much", field="body", value=f"{counts[name]} {name}", allowed=f"up to {most}"
            )


def bounded(about: T) -> T:
    """Return what a user says about something, unless it is too large to be kept.

    Raises:
        InputError: it is.
    """
    size = len(json.dumps(about, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > MAX_METADATA:
        raise InputError(
            "this is too large to be stored", value=f"{size} bytes", allowed=f"up to {MAX_METADATA} bytes of JSON"
        )
    return about


def _all_text(metadata: object) -> object:
    """Refuse the first value that is no text, not each."""
    if isinstance(metadata, dict):
        for name, value in cast("dict[str, object]", metadata).items():
            if not isinstance(value, str):
                field = f"user_metadata.{name[:80]}"
                raise InputError("metadata values must be texts", field=field, value=value, allowed="a text")
    return metadata


FailFast = Annotated[T, Field(fail_fast=True)]
"""A list of which one wrong element is told of, not each: what is written of one takes a thousand bytes."""
TurnList = Annotated[list[T], Field(fail_fast=True, max_length=MAX_TURNS)]
ToolList = Annotated[list[T], Field(fail_fast=True, max_length=MAX_TOOLS)]
Metadata = Annotated[Mapping[str, JsonValue], AfterValidator(bounded)]
TextMetadata = Annotated[Mapping[str, str], BeforeValidator(_all_text), AfterValidator(bounded)]
ShortText = Annotated[str, Field(max_length=4096)]


def _outside_texts(body: bytes) -> dict[str, int]:
    """Count what stands in no text, piece by piece: a copy of a body would be as large as it is."""
    counts, begin = dict.fromkeys(MOST, 0), b""
    for at in range(0, len(body), _PIECE):
        piece = begin + body[at : at + _PIECE]
        escape = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        # The quote closes a text that goes on behind the piece; otherwise it begins one, which is dropped.
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
