"""Number of a protobuf message's parts, counted without parsing it: each takes far more memory than its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tinsmith.types.errors import InputError

MAX_PARTS: Final = 1 << 17
"""Most datums of a training request, with their pieces and inputs, together."""
FEW_BYTES: Final = 1 << 20
"""Messages up to this size cannot have too many."""
_DATA: Final = 3
"""Field of a training request that holds its datums."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def require_few_parts(body: bytes) -> None:
    """Reject a training request with too many datums, pieces and inputs, before it is parsed.

    Raises:
        InputError: it has too many. Bytes that are not a message are rejected by the parser.
    """
    if len(body) <= FEW_BYTES:
        return
    count = 0
    for number, begin, end in _fields(body, 0, len(body)):
        count += 1
        if number == _DATA:
            count += sum(1 for _ in zip(_fields(body, begin, end), range(MAX_PARTS + 1), strict=False))
        if count > MAX_PARTS:
            raise InputError(
                "this request has too many datums, or pieces and inputs of them",
                field="data",
                value=f"more than {MAX_PARTS}",
                allowed=f"{MAX_PARTS} together",
                fix="send fewer datums a request; gradients add up until optim_step",
            )


def _fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number and content of each field; stop at bytes that are not a field."""
    while at < end:
        tag, at = _varint(body, at, end)
        kind, size = tag & 7, 0
        if kind == _BYTES:
            size, at = _varint(body, at, end)
        elif kind == _VARINT:
            _, after = _varint(body, at, end)
            size = after - at
        elif kind in (_EIGHT, _FOUR):
            size = 8 if kind == _EIGHT else 4
        else:
            return
        if at + size > end:
            return
        yield tag >> 3, at, at + size
        at += size


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < end and shift < 70:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
