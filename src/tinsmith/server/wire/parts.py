"""Number of a protobuf message's parts, counted without reading it: each takes far more memory than as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tinsmith.types.errors import InputError

MAX_PARTS: Final = 1 << 17
"""Datums of a training request, and their pieces and inputs, together."""
FEW_BYTES: Final = 1 << 20
"""A message of so few bytes cannot have too many."""
_DATA: Final = 3
"""The field of a training request that holds its datums."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def require_few_parts(body: bytes) -> None:
    """Refuse a training request of too many datums, or of too many pieces and inputs of datums, before it is read.

    Raises:
        InputError: it has too many. What is no message at all is for who reads it to refuse.
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
    """The number, and the place of the content, of each field; none after what is no field."""
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
