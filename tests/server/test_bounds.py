"""Counts of a JSON body's values before it is read, whatever stands in its texts."""

import gc
import random
from contextlib import suppress

import pytest
from pydantic import ValidationError

from tinsmith.server.openai.requests import CompletionRequest
from tinsmith.server.wire.body import parse_json
from tinsmith.server.wire.bounds import MOST, require_bounds
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
