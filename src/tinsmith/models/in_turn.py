"""Tensors by name of which each is read when it is asked for and then forgotten, so that never all are held."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

_T = TypeVar("_T")


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
        """Whether there is such a value; nothing is read."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
