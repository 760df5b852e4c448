"""Sequence number of a refused request, which the SDK has counted: later ones would wait for it forever.

Bodies are parsed as leniently as possible; an unreadable number is not counted.
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
    """Place of a request in the order of its owner's."""

    owner: str
    """Id of a model or a sampling session."""
    seq_id: int


def json_place(body: bytes, owner: str) -> Place | None:
    """Return the place that a JSON body names; `owner` is the field with the id whose requests are counted.

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
    """Return the place that a protobuf training request names."""
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
