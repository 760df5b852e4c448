"""Bodies of requests that hold more values than can be held, counted before they are read."""

import gc
import random
from contextlib import suppress

import pytest
from pydantic import ValidationError
from training_requests import forward_backward

from tinsmith.server.openai.requests import CompletionRequest
from tinsmith.server.wire.body import parse_json
from tinsmith.server.wire.bounds import MOST, require_bounds
from tinsmith.server.wire.parts import FEW_BYTES, MAX_PARTS, require_few_parts
from tinsmith.server.wire.training_request import parse_forward_backward
from tinsmith.types.errors import InputError

LISTS = MOST["lists and objects"]


def _body(num_lists: int) -> bytes:
    """Empty lists among texts full of signs, of all lengths, so that the body's pieces end anywhere in them."""
    rng = random.Random(1)
    parts: list[str] = []
    for _ in range(num_lists - 1):
        text = "".join(rng.choices('[{:\\"a', k=rng.randrange(12))).replace("\\", "\\\\").replace('"', '\\"')
        parts.append(f'[],"{text}"' if rng.random() < 0.5 else "[]")
    return ("[" + ",".join(parts) + "]").encode()


def test_signs_in_texts_are_not_counted_wherever_a_body_is_cut() -> None:
    body = _body(LISTS)
    assert body.count(b"[") > LISTS
    require_bounds(body)
    with pytest.raises(InputError, match=f"{LISTS + 1} lists"):
        require_bounds(b"[" + body + b"]")


@pytest.mark.parametrize("letter", [b"[", b"\\\\", b'\\"', b"\\u0000"])
def test_a_text_of_megabytes_is_one_text(letter: bytes) -> None:
    require_bounds(b'{"a": "' + letter * 1_500_000 + b'[", "b": [' + b"[]," * 60_000 + b"[]]}")
    with pytest.raises(InputError, match="lists"):
        require_bounds(b'{"a": "' + letter * 1_500_000 + b'[", "b": [' + b"[]," * LISTS + b"[]]}")


def test_a_refused_body_is_let_go_of_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        with suppress(InputError):
            parse_json(CompletionRequest, b'{"model": "x", "prompt": [' + b'"ab",' * 1000 + b"1]}")
        held = [each for each in gc.get_objects() if type(each) is ValidationError]
    finally:
        gc.enable()
    assert not held


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
