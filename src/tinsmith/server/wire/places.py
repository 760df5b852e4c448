"""Number of a refused request. The SDK has counted it: what follows it would wait for ever.

Bodies are read as leniently as they can be; where a number cannot be read, nothing is counted.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from google.protobuf.message import DecodeError

from tinsmith.server.wire.message_types import ForwardBackwardMessage
from tinsmith.server.wire.messages import CLASSES
from tinsmith.server.wire.parts import require_few_parts
from tinsmith.types.errors import InputError

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """A request's place in the order of its owner's."""

    owner: str
    """A model's or a sampling session's id."""
    seq_id: int


def json_place(body: bytes, owner: str) -> Place | None:
    """The place that a JSON body names; `owner` is the field that holds whose requests are counted.

    >>> json_place(b'{"model_id": "m", "seq_id": 3, "adam_params": 0}', "model_id")
    Place(owner='m', seq_id=3)
    >>> json_place(b"{", "model_id")
    """
    with suppress(ValueError, RecursionError):
        values: Any = json.loads(body)
        if isinstance(values, dict):
            fields = cast("dict[str, object]", values)
            return _place(fields.get(owner), fields.get("seq_id"))
    return None


def forward_backward_place(body: bytes) -> Place | None:
    """The place that a protobuf training request names."""
    message = CLASSES["ForwardBackwardRequest"]()
    with suppress(DecodeError, InputError):
        require_few_parts(body)
        message.ParseFromString(body)
        request = cast("ForwardBackwardMessage", message)
        return _place(request.model_id, request.seq_id)
    return None


def _place(owner: object, seq_id: object) -> Place | None:
    if not isinstance(owner, str) or not isinstance(seq_id, int) or isinstance(seq_id, bool):
        return None
    return Place(owner, seq_id) if 0 <= seq_id <= _LARGEST else None
