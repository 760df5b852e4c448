"""Tensors by name of which each is read when it is asked for and then forgotten, so that never all are held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar

import numpy as np
from torch import Tensor

from tinsmith.ops.packed import Packed
from tinsmith.types.errors import CheckpointError

_T = TypeVar("_T")

_WIDENED_AT_ONCE: Final = 1 << 20
"""Values of a packed matrix that are widened at a time: 4 MiB."""
_AT_ONCE: Final = 1 << 18
"""Values of a wide matrix that are read at a time: 4 MiB."""


class InTurn(Mapping[str, _T]):
    """Reads a value whenever it is asked for, and keeps none."""

    def __init__(self, names: Collection[str], read: Callable[[str], _T]) -> None:
        self._names = {name: None for name in names}
        self._read = read

    def __getitem__(self, name: str) -> _T:
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        """True if there is such a value; nothing is read."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class RowsInTurn(InTurn[Tensor]):
    """Tensors of which some rows can be read by themselves; NaN and infinity are refused in whatever is read."""

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

        `packed` returns a matrix as its file has it, and None of a tensor that is not held so.
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
        """Return a matrix as its file has it, unchecked; None where it is not held so."""
        return None if self._packed is None else self._packed(name)

    def widened(self, name: str, held: Packed) -> Iterator[Tensor]:
        """Yield the rows of a matrix that `packed` returned as fp32, so many at a time as stay in a cache.

        Raises:
            CheckpointError: they hold NaN or infinity.
        """
        count, width = held.shape
        step = max(1, _WIDENED_AT_ONCE // width)
        for begin in range(0, count, step):
            yield require_finite(held.rows(begin, min(begin + step, count)), name, self._place_of(name))

    def as_fp32(self) -> RowsInTurn:
        """Return the same tensors, of which none is held as its file has it."""
        return RowsInTurn(self._names, self._read_one, self._read_rows, place_of=self._place_of)

    def kept(self) -> RowsInTurn:
        """Return the same tensors in memory: matrices as their file has them where they can be, others as fp32."""
        held = {name: self.packed(name) or self._read_one(name) for name in self}
        return held_as_published(held, place_of=self._place_of)


def held_as_published(
    held: Mapping[str, Packed | Tensor], *, place_of: Callable[[str], str] = lambda name: name
) -> RowsInTurn:
    """Return tensors in memory as fp32, of which matrices are widened whenever they are asked for."""

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
    if not np.isfinite(total):  # or the values are large: finite ones may add up to infinity
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
