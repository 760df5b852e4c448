"""Training requests of more parts than can be held are refused before they are read."""

import pytest
from training_requests import forward_backward

from tinsmith.server.wire.parts import FEW_BYTES, MAX_PARTS, require_few_parts
from tinsmith.server.wire.training_request import parse_forward_backward
from tinsmith.types.errors import InputError

DATUM, PIECE = b"\x1a\x00", b"\x0a\x00"
"""A datum of nothing, and a piece of nothing of a datum."""


def varint(value: int) -> bytes:
    written = b""
    while value > 0x7F:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def padded(body: bytes) -> bytes:
    """The same with a field that nobody reads, so that it is not too small to be looked at."""
    return body + b"\x7a" + varint(FEW_BYTES) + bytes(FEW_BYTES)


@pytest.mark.parametrize("count", [MAX_PARTS + 1, 20 * MAX_PARTS])
def test_too_many_datums_or_pieces_are_refused(count: int) -> None:
    for body in (padded(DATUM * count), padded(b"\x1a" + varint(len(PIECE) * count) + PIECE * count)):
        with pytest.raises(InputError, match="together"):
            parse_forward_backward(body)


def test_a_request_of_many_bytes_and_few_parts_is_not_refused_for_them() -> None:
    require_few_parts(padded(forward_backward("m:train:0", 1)))
    require_few_parts(padded(DATUM * (MAX_PARTS - 2)))


@pytest.mark.parametrize(
    "body", [b"\xff" * (FEW_BYTES + 1), b"\x1a\xff\xff\xff\xff\x7f" * FEW_BYTES, bytes(FEW_BYTES + 1)]
)
def test_what_is_no_message_is_refused_by_who_reads_it(body: bytes) -> None:
    with pytest.raises(InputError):
        parse_forward_backward(body)
