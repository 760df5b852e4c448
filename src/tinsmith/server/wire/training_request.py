"""Parsing of training requests: protobuf, with little-endian arrays, into values.

This module is independent of HTTP, models and losses. For results see `results`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

import numpy as np
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from numpy.typing import NDArray

from tinsmith.server.wire.message_types import (
    ChunkMessage,
    DatumMessage,
    ForwardBackwardMessage,
    LossConfigValueMessage,
    SparseMessage,
    TensorMessage,
)
from tinsmith.server.wire.messages import CLASSES, CONTENT_TYPE, DType
from tinsmith.server.wire.parts import require_few_parts
from tinsmith.types.datum import MAX_READS, MAX_TARGETS, Datum
from tinsmith.types.errors import InputError

_STORED = {
    DType.FLOAT32: np.dtype("<f4"),
    DType.INT64: np.dtype("<i8"),
    DType.INT32: np.dtype("<i4"),
    DType.BFLOAT16: np.dtype("<u2"),
}

MAX_SPARSE = 4 * MAX_READS
"""Most elements of a request's sparse tensors together: targets and three inputs of the largest request."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForwardBackwardCall:
    """Training request as sent; `engine.validation` decides if it can be computed."""

    model_id: str
    seq_id: int
    datums: tuple[Datum, ...]
    loss_fn: str
    loss_fn_config: Mapping[str, object]
    forward_only: bool
    """True to compute the outputs only, and leave the gradient as it is."""

    @property
    def num_bytes(self) -> int:
        """Bytes of its datums in memory."""
        arrays = (array for datum in self.datums for array in (datum.tokens, *datum.inputs.values()))
        return sum(array.nbytes for array in arrays)


def parse_forward_backward(body: bytes) -> ForwardBackwardCall:
    """Parse a training request.

    Raises:
        InputError: for bytes that are not such a request, or one with unsupported content.
    """
    require_few_parts(body)
    message = CLASSES["ForwardBackwardRequest"]()
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise InputError(
            "the body is not a forward_backward request",
            field="body",
            value=f"{len(body)} bytes",
            allowed=f"{CONTENT_TYPE}, as the tinker SDK (0.25 or newer) sends it",
        ) from None
    _refuse_unknown(message, "request")
    request = cast("ForwardBackwardMessage", message)
    _require_room(request.data)
    if request.seq_id < 1:
        raise InputError(
            "a training request needs a seq_id",
            field="seq_id",
            value=request.seq_id,
            allowed="1, 2, 3, ... per training client",
        )
    return ForwardBackwardCall(
        model_id=request.model_id,
        seq_id=request.seq_id,
        datums=tuple(_datum(datum, f"data[{i}]") for i, datum in enumerate(request.data)),
        loss_fn=request.loss_fn,
        loss_fn_config={
            **request.loss_fn_config,
            **{name: _setting(value, name) for name, value in request.loss_fn_config_v2.items()},
        },
        forward_only=request.forward_only,
    )


def _refuse_unknown(message: object, field: str) -> None:
    """Reject unknown fields: they may change the meaning."""
    numbers = sorted({int(each.field_number) for each in UnknownFieldSet(cast("Message", message))})
    if numbers:
        raise InputError(
            "this message has unknown fields",
            field=field,
            value=f"field numbers {numbers}",
            fix="use a tinker SDK that this version of tinsmith was tested with",
        )


def _shown(name: str) -> str:
    """Quote a name from the client so that it stays on one line."""
    return name if name.isidentifier() else repr(name)


def _setting(value: LossConfigValueMessage, name: str) -> float | str:
    field = f"loss_fn_config.{_shown(name)}"
    _refuse_unknown(value, field)
    match value.WhichOneof("value"):
        case "number":
            return value.number
        case "text":
            return value.text
        case _:
            raise InputError("this setting needs a value", field=field, allowed="a number or a text")


def _datum(datum: DatumMessage, field: str) -> Datum:
    _refuse_unknown(datum, field)
    chunks = [_chunk(chunk, f"{field}.model_input[{i}]") for i, chunk in enumerate(datum.model_input)]
    inputs = {
        name: _tensor(datum.loss_fn_inputs[name], f"{field}.loss_fn_inputs.{_shown(name)}")
        for name in sorted(datum.loss_fn_inputs)
    }
    return Datum(tokens=np.concatenate([np.empty(0, np.int32), *chunks]), inputs=inputs)


def _chunk(chunk: ChunkMessage, field: str) -> NDArray[np.int32]:
    _refuse_unknown(chunk, field)
    kind = chunk.WhichOneof("chunk")
    if kind != "encoded_text":
        raise InputError("only text is supported here", field=field, value=kind, allowed="chunks of encoded_text")
    _refuse_unknown(chunk.encoded_text, field)
    return _array(chunk.encoded_text.tokens, DType.INT32, field).astype(np.int32)


def _tensor(tensor: TensorMessage, field: str) -> NDArray[np.generic]:
    """Return a float32 or int64 array of one or two dimensions; the default shape is the number of elements.

    Unlisted elements of a sparse tensor are 0, as in the SDK: token 0, with weight 0.
    """
    _refuse_unknown(tensor, field)
    shape = tuple(tensor.shape)
    try:
        dtype = DType(tensor.dtype)
    except ValueError:
        _refuse_tensor(field, f"element type {tensor.dtype}")
    match tensor.WhichOneof("encoding"):
        case "dense" if len(shape) <= 2:
            values = _array(tensor.dense, dtype, field)
            shape = shape or values.shape
            if min(shape) < 0 or math.prod(shape) != len(values):
                _refuse_tensor(field, f"{len(values)} values, shape {shape}")
            values = values.reshape(shape)
        case "sparse_csr" if len(shape) == 2:
            values = _dense(tensor.sparse_csr, dtype, shape, field)
        case None:
            _refuse_tensor(field, f"without values, shape {shape}")
        case encoding:
            _refuse_tensor(field, f"{encoding}, shape {shape}")
    if dtype is DType.BFLOAT16:
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float32 if dtype is DType.FLOAT32 else np.int64)


def _dense(sparse: SparseMessage, dtype: DType, shape: tuple[int, ...], field: str) -> NDArray[np.generic]:
    """Expand a matrix listed row by row (CSR)."""
    _refuse_unknown(sparse, field)
    rows, columns = shape
    values = _array(sparse.values, dtype, field)
    ends = _array(sparse.crow_indices, DType.INT64, field).astype(np.int64)
    at = _array(sparse.col_indices, DType.INT64, field).astype(np.int64)
    counts = np.diff(ends)
    well_formed = (
        len(ends) == rows + 1
        and len(values) == len(at) == ends[-1]
        and ends[0] == 0
        and bool((counts >= 0).all())
        and bool(((at >= 0) & (at < columns)).all())
    )
    if not well_formed:
        _refuse_tensor(field, f"sparse_csr with indices that do not fit shape {shape}")
    cells = np.repeat(np.arange(rows), counts) * columns + at
    if (np.diff(cells) <= 0).any():
        _refuse_tensor(field, "sparse_csr with columns of a row twice, or not in order")
    dense = np.zeros(rows * columns, values.dtype)
    dense[cells] = values
    return dense.reshape(shape)


def _require_room(datums: Sequence[DatumMessage]) -> None:
    """Reject a request whose sparse tensors exceed the largest computable size, before one is expanded."""
    elements = 0
    for i, datum in enumerate(datums):
        for name in sorted(datum.loss_fn_inputs):
            tensor = datum.loss_fn_inputs[name]
            if tensor.WhichOneof("encoding") != "sparse_csr":
                continue
            field = f"data[{i}].loss_fn_inputs.{_shown(name)}"
            shape = tuple(tensor.shape)
            if len(shape) != 2 or min(shape) < 0 or shape[1] > MAX_TARGETS:
                _refuse_tensor(field, f"sparse_csr, shape {shape}")
            elements += math.prod(shape)
            if elements > MAX_SPARSE:
                raise InputError(
                    "the sparse arrays of this request are too large when written out",
                    field=field,
                    value=shape,
                    allowed=f"{MAX_SPARSE} elements in all",
                    fix="send fewer datums a request; gradients add up until optim_step",
                )


def _array(data: bytes, dtype: DType, field: str) -> NDArray[np.generic]:
    stored = _STORED[dtype]
    if len(data) % stored.itemsize:
        _refuse_tensor(field, f"{len(data)} bytes of {dtype.name.lower()}")
    return np.frombuffer(data, stored)


def _refuse_tensor(field: str, value: str) -> NoReturn:
    raise InputError(
        "this array cannot be read",
        field=field,
        value=value,
        allowed="dense, shape (N,) or (N, K), or sparse_csr, shape (N, K), of float32, int64, int32 or bfloat16",
        fix=f"K is at most {MAX_TARGETS}",
    )
