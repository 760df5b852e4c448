"""Types of the protobuf messages that are read here, for type checkers; the classes are made in `messages`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class _HasOneof(Protocol):
    def WhichOneof(self, oneof_group: str) -> str | None:
        """Return the name of the member that is set."""
        ...


class SparseMessage(Protocol):
    """A matrix that lists its values row by row (CSR); the indices are int64, little-endian."""

    values: bytes
    crow_indices: bytes
    col_indices: bytes


class TensorMessage(_HasOneof, Protocol):
    """A tensor as it came."""

    dense: bytes
    sparse_csr: SparseMessage
    dtype: int
    shape: Sequence[int]


class TextChunkMessage(Protocol):
    """Tokens: int32, little-endian."""

    tokens: bytes


class ChunkMessage(_HasOneof, Protocol):
    """A piece of a model's input."""

    encoded_text: TextChunkMessage


class DatumMessage(Protocol):
    """One training example as it came."""

    model_input: Sequence[ChunkMessage]
    loss_fn_inputs: Mapping[str, TensorMessage]


class LossConfigValueMessage(_HasOneof, Protocol):
    """A setting of a loss: a number or a text."""

    number: float
    text: str


class ForwardBackwardMessage(Protocol):
    """A forward_backward request as it came."""

    model_id: str
    seq_id: int
    data: Sequence[DatumMessage]
    loss_fn: str
    loss_fn_config: Mapping[str, float]
    forward_only: bool
    loss_fn_config_v2: Mapping[str, LossConfigValueMessage]
