"""Tables of target tokens from the SDK, dense or sparse by rows; results are returned in the same layout."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from tinsmith.server.wire.messages import CLASSES, DType
from tinsmith.server.wire.settings import TensorSettings
from tinsmith.types.datum import FloatArray, IntArray
from tinsmith.types.errors import InputError

_FIELD = "target_prompt_logprobs"


@dataclass(frozen=True, slots=True, eq=False)
class TargetTable:
    """Token ids to score: a row per prompt token but the first."""

    shape: tuple[int, int]
    cells: IntArray
    """Ids of each row, (rows, longest row), left-aligned and padded with -1."""
    crow: NDArray[np.int64] | None
    """Offset of each row's first id, if the table came sparse."""
    columns: NDArray[np.int64] | None

    def encode(self, logprobs: FloatArray) -> Message:
        """Encode the figures of `cells` as a tensor in the layout of the request."""
        dtype, shape = int(DType.FLOAT32), list(self.shape)
        if self.crow is None or self.columns is None:
            dense = np.ascontiguousarray(logprobs, "<f4").tobytes()
            return CLASSES["Tensor"](dense=dense, dtype=dtype, shape=shape)
        named = np.arange(self.cells.shape[1]) < np.diff(self.crow)[:, None]
        sparse = CLASSES["SparseCsr"](
            values=np.ascontiguousarray(logprobs[named], "<f4").tobytes(),
            crow_indices=self.crow.astype("<i8").tobytes(),
            col_indices=self.columns.astype("<i8").tobytes(),
        )
        return CLASSES["Tensor"](sparse_csr=sparse, dtype=dtype, shape=shape)


def read_targets(sent: TensorSettings, *, rows: int) -> TargetTable:
    """Return the table of a prompt with `rows` + 1 tokens.

    Raises:
        InputError: for a tensor that is not such a table, or is empty.
    """
    if sent.dtype != "int64" or sent.shape is None or len(sent.shape) != 2:
        raise _refusal(f"{sent.dtype} of shape {sent.shape}", f"an int64 tensor of shape [{rows}, K]")
    shape = (sent.shape[0], sent.shape[1])
    if shape[0] != rows or shape[1] < 1:
        raise _refusal(shape, f"shape [{rows}, K] for this prompt")
    if not all(-1 <= each < 2**31 for each in sent.data):
        raise _refusal("a value that is no token id", "token ids, or -1")
    values = np.array(sent.data, np.int64).astype(np.int32)
    if not (values >= 0).any():
        raise _refusal("no token id", "at least one token id")
    if sent.sparse_crow_indices is None and sent.sparse_col_indices is None:
        if len(values) != shape[0] * shape[1]:
            raise _refusal(f"{len(values)} values", f"{shape[0] * shape[1]} for its shape")
        return TargetTable(shape, values.reshape(shape), None, None)
    crow = np.array(sent.sparse_crow_indices or (), np.int64)
    columns = np.array(sent.sparse_col_indices or (), np.int64)
    _check_sparse(crow, columns, len(values), shape)
    counts = np.diff(crow)
    cells = np.full((rows, int(counts.max())), -1, np.int32)
    cells[np.arange(cells.shape[1]) < counts[:, None]] = values
    return TargetTable(shape, cells, crow, columns)


def _check_sparse(crow: NDArray[np.int64], columns: NDArray[np.int64], count: int, shape: tuple[int, int]) -> None:
    fits = (
        len(crow) == shape[0] + 1
        and len(columns) == count
        and crow[0] == 0
        and crow[-1] == count
        and bool((np.diff(crow) >= 0).all())
        and bool(((columns >= 0) & (columns < shape[1])).all())
    )
    if not fits:
        raise _refusal(
            f"{len(crow)} row pointers, {len(columns)} columns, {count} values",
            f"the CSR layout of {shape[0]} rows and {shape[1]} columns",
        )


def _refusal(value: object, allowed: str) -> InputError:
    return InputError("a table of target tokens does not fit", field=_FIELD, value=value, allowed=allowed)
