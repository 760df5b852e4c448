"""Tensors by name of which each is read when it is asked for and then forgotten, so that never all are held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar

import numpy as np
from torch import Tensor

from tinsmith.types.errors import CheckpointError

_T = TypeVar("_T")

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
    ) -> None:
        """Read through these functions; `place_of` returns the file of a tensor, for errors."""
        super().__init__(names, lambda name: require_finite(read(name), name, place_of(name)))
        self._read_rows = read_rows
        self._place_of = place_of

    def read_rows(self, name: str, begin: int, end: int) -> Tensor:
        """Return rows begin .. end of a matrix.

        Raises:
            CheckpointError: they hold NaN or infinity.
        """
        return require_finite(self._read_rows(name, begin, end), name, self._place_of(name))


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
