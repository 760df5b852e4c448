"""Tensors by name that are read on access and not retained, so that never all are in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar

import numpy as np
from torch import Tensor

from tinsmith.ops.packed import Packed
from tinsmith.types.errors import CheckpointError

_T = TypeVar("_T")

_WIDENED_AT_ONCE: Final = 1 << 20
"""Values of a packed matrix widened at a time: 4 MiB."""
_AT_ONCE: Final = 1 << 18
"""Values of a wide matrix read at a time: 4 MiB."""


class InTurn(Mapping[str, _T]):
    """Mapping that reads a value on each access, and retains none."""

    def __init__(self, names: Collection[str], read: Callable[[str], _T]) -> None:
        self._names = {name: None for name in names}
        self._read = read

    def __getitem__(self, name: str) -> _T:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        """True if the value exists; nothing is read."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class RowsInTurn(InTurn[Tensor]):
    """Tensors with rows that can be read separately; NaN and infinity are rejected on reading."""

    def __init__(
        self,
        names: Collection[str],
        read: Callable[[str], Tensor],
        read_rows: Callable[[str, int, int], Tensor],
        *,
        place_of: Callable[[str], str],
        packed: Callable[[str], Packed | None] | None = None,
    ) -> None:
        """Read through these functions; `place_of` returns the file of a tensor, for errors.

        `packed` returns a matrix in its file's form, or None for a tensor without one.
        """
        super().__init__(names, lambda name: require_finite(read(name), name, place_of(name)))
        self._read_one = read
        self._read_rows = read_rows
        self._place_of = place_of
        self._packed = packed

    def read_rows(self, name: str, begin: int, end: int) -> Tensor:
        """Return rows begin .. end of a matrix.

        Raises:
            CheckpointError: they hold NaN or infinity.
        """
        return require_finite(self._read_rows(name, begin, end), name, self._place_of(name))

    def packed(self, name: str) -> Packed | None:
        """Return a matrix in its file's form, unchecked; None if it has none."""
        return None if self._packed is None else self._packed(name)

    def widened(self, name: str, held: Packed) -> Iterator[Tensor]:
        """Yield the rows of a matrix that `packed` returned as fp32, in chunks that fit a cache.

        Raises:
            CheckpointError: they hold NaN or infinity.
        """
        count, width = held.shape
        step = max(1, _WIDENED_AT_ONCE // width)
        for begin in range(0, count, step):
            yield require_finite(held.rows(begin, min(begin + step, count)), name, self._place_of(name))

    def as_fp32(self) -> RowsInTurn:
        """Return a view of the tensors in which every matrix is widened to fp32."""
        return RowsInTurn(self._names, self._read_one, self._read_rows, place_of=self._place_of)

    def in_memory(self) -> RowsInTurn:
        """Return the same tensors in memory: matrices in their file's form if possible, others as fp32."""
        held = {name: self.packed(name) or self._read_one(name) for name in self}
        return held_as_published(held, place_of=self._place_of)


def held_as_published(
    held: Mapping[str, Packed | Tensor], *, place_of: Callable[[str], str] = lambda name: name
) -> RowsInTurn:
    """Return tensors in memory as fp32; matrices are widened on each access."""

    def rows(name: str, begin: int, end: int) -> Tensor:
        one = held[name]
        return one.rows(begin, end) if isinstance(one, Packed) else one[begin:end]

    def whole(name: str) -> Tensor:
        one = held[name]
        return one.widened() if isinstance(one, Packed) else one

    def packed(name: str) -> Packed | None:
        one = held[name]
        return one if isinstance(one, Packed) else None

    return RowsInTurn(held, whole, rows, place_of=place_of, packed=packed)


def require_finite(tensor: Tensor, name: str, place: str) -> Tensor:
    """Return the tensor, which is fp32; one pass over its values, on one thread and without a copy.

    Raises:
        CheckpointError: it holds NaN or infinity.
    """
    values = tensor.numpy()
    with np.errstate(all="ignore"):
        total = values.sum()
    if not np.isfinite(total):  # or the values are large: finite ones may sum to infinity
        wrong = values[~np.isfinite(values)]
        if wrong.size:
            raise CheckpointError(
                f"{place}: a tensor holds NaN or infinity",
                field=name,
                value=float(wrong[0]),
                allowed="finite values",
                fix="fetch the file again, or use another version of the model",
            )
    return tensor


def in_blocks(weights: Mapping[str, Tensor], name: str, shape: tuple[int, int]) -> Iterator[tuple[int, Tensor]]:
    """Yield a matrix of this shape in blocks of rows, each with the number of its first one."""
    rows = max(1, _AT_ONCE // shape[1])
    whole = None if isinstance(weights, RowsInTurn) else weights[name]
    for begin in range(0, shape[0], rows):
        end = min(begin + rows, shape[0])
        if isinstance(weights, RowsInTurn):
            yield begin, weights.read_rows(name, begin, end)
        elif whole is not None:
            yield begin, whole[begin:end]
