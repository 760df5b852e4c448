"""Types of the protobuf messages that are read here, for type checkers; the classes are created in `messages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class _HasOneof(Protocol):
    def WhichOneof(self, oneof_group: str) -> str | None:
        """Return the name of the member that is set."""
        ...


class SparseMessage(Protocol):
    """Matrix listed row by row (CSR); the indices are int64, little-endian."""

    values: bytes
    crow_indices: bytes
    col_indices: bytes


class TensorMessage(_HasOneof, Protocol):
    """Tensor on the wire."""

    dense: bytes
    sparse_csr: SparseMessage
    dtype: int
    shape: Sequence[int]


class TextChunkMessage(Protocol):
    """Tokens: int32, little-endian."""

    tokens: bytes


class ChunkMessage(_HasOneof, Protocol):
    """Piece of a model's input."""

    encoded_text: TextChunkMessage


class DatumMessage(Protocol):
    """Training example on the wire."""

    model_input: Sequence[ChunkMessage]
    loss_fn_inputs: Mapping[str, TensorMessage]


class LossConfigValueMessage(_HasOneof, Protocol):
    """Setting of a loss: a number or a text."""

    number: float
    text: str


class ForwardBackwardMessage(Protocol):
    """Request forward_backward on the wire."""

    model_id: str
    seq_id: int
    data: Sequence[DatumMessage]
    loss_fn: str
    loss_fn_config: Mapping[str, float]
    forward_only: bool
    loss_fn_config_v2: Mapping[str, LossConfigValueMessage]
