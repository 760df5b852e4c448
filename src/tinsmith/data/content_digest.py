"""Fingerprint of a table's content, independent of chunks, file format and the library that wrote it.

For each column three SHA-256 sums run over its rows: which are null, how long each value is, and the values' bytes.
"""

from __future__ import annotations

import hashlib

import numpy as np
import polars as pl


class ContentDigest:
    """Digest of a table fed in chunks; their boundaries do not matter."""

    def __init__(self, columns: dict[str, pl.DataType]) -> None:
        self._columns = {name: _ColumnDigest(dtype) for name, dtype in columns.items()}

    def update(self, chunk: pl.DataFrame) -> None:
        """Add the next rows; `chunk` has the table's columns."""
        for name, column in self._columns.items():
            column.update(chunk[name])

    def sums(self) -> dict[str, list[str]]:
        """Return column name -> type and the hexadecimal sums over nulls, lengths and bytes."""
        return {name: column.sums() for name, column in self._columns.items()}


class _ColumnDigest:
    def __init__(self, dtype: pl.DataType) -> None:
        self._name = str(dtype)
        self._sums = [hashlib.sha256() for _ in range(4 if isinstance(dtype, pl.List) else 3)]

    def update(self, column: pl.Series) -> None:
        nulls, lengths, values, *items = self._sums
        nulls.update(column.is_null().cast(pl.UInt8).to_numpy().tobytes())
        if items:
            lengths.update(_little(column.list.len().fill_null(0).cast(pl.UInt32)))
            column = column.explode(empty_as_null=False, keep_nulls=False)
            lengths = items[0]
        if column.dtype == pl.String:
            text = column.fill_null("")
            lengths.update(_little(text.str.len_bytes().cast(pl.UInt32)))
            values.update("".join(text.to_list()).encode())
        else:
            values.update(_little(column.to_physical().fill_null(0)))

    def sums(self) -> list[str]:
        return [self._name, *(one.hexdigest() for one in self._sums)]


def _little(numbers: pl.Series) -> bytes:
    array = numbers.to_numpy()
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()
