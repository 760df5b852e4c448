"""Messages between the driver of a sharded base and its earlier stages.

The driver holds the last stage and asks the others in order, one call at a time. Rows leave a stage as the residual
stream, [rows, H] fp32, and their gradient comes back. All that is passed can be pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tinsmith.models.decoder import Place
from tinsmith.models.routes import Recorded
from tinsmith.ops.forest import TreeNode
from tinsmith.types.datum import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartNumbers:
    """A low-rank part at one place: its weights, or their gradients."""

    place: Place
    a: FloatArray
    """[in, sum of ranks]."""
    b: tuple[FloatArray, ...]
    """Per target [rank, columns]."""
    magnitude: FloatArray | None
    """DoRA: [out]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedPart:
    """A low-rank part that a stage is to compute with."""

    weights: PartNumbers
    columns: tuple[tuple[int, int], ...]
    """Per target, its columns in the output."""
    scaling: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeRows:
    """Whole trees, one adapter."""

    step: int | None
    """Under which number `backward` will ask for what this leaves; None: nothing is to be left."""
    ids: NDArray[np.int64]
    """The token of every row."""
    trees: tuple[tuple[TreeNode, ...], ...]
    adapter: int | None
    """Its number; None: the base alone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedRows:
    """New rows of many sequences over their caches, as `ops.paging.Rows` says where they stand."""

    pool: int
    """The number of the pool that the tables are of."""
    ids: NDArray[np.int64]
    row_begin: NDArray[np.int64]
    first_pos: NDArray[np.int64]
    positions: NDArray[np.int64]
    table: NDArray[np.int32]
    runs: tuple[tuple[int, int, int | None], ...]
    """(first row, last row + 1, number of the adapter), covering all rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageGradients:
    """Gradients of a stage's backward pass."""

    x: FloatArray | None
    """Of the rows it was given, [rows, H]; None from the first stage, which was given none."""
    parts: tuple[PartNumbers, ...]
    """Of its parts of the adapter, in the order in which they were opened."""


class StageLostError(Exception):
    """A stage is gone, and with it the worker that it is part of.

    No TinsmithError: nobody asked for anything wrong, and what was asked is to be done by another worker.
    """


class StageCalls(Protocol):
    """An earlier stage, wherever it is. Each call either completes or leaves nothing behind.

    Raises whatever the stage did; what it no longer has is a BackendError. StageLostError: it is gone.
    """

    def clear(self) -> None:
        """Drop all that an earlier driver left."""
        ...

    def open(self, adapter: int, parts: Sequence[OpenedPart]) -> list[FloatArray | None]:
        """Hold an adapter's parts under a number, and return the norm of each that is a DoRA, [out]."""
        ...

    def close(self, adapters: Sequence[int], steps: Sequence[int]) -> None:
        """Drop adapters, and what `forward` left for steps whose backward will not be asked for."""
        ...

    def forward(self, asked: TreeRows, x: FloatArray | None) -> FloatArray:
        """Compute rows from those of the stage before, [rows, H]; the first stage is given None."""
        ...

    def backward(self, step: int, grad: FloatArray) -> StageGradients:
        """Return the gradients behind that of the rows which `forward` returned; what it left is gone then."""
        ...

    def open_pool(self, pool: int, capacity: int) -> None:
        """Have so many pages for each own layer, under a number; they take the place of earlier ones."""
        ...

    def sample(self, asked: CachedRows, x: FloatArray | None) -> FloatArray:
        """As `forward`, over the pages of a pool."""
        ...

    def routed(self) -> Recorded | None:
        """Return what was recorded of a mixture's routes in the rows computed last; None where there is none."""
        ...

    def duplicate(self, pool: int, page: int, copies: Sequence[int]) -> None:
        """Copy one page's keys and values into others, in every own layer."""
        ...

    def scrub(self, pool: int, pages: Sequence[int]) -> None:
        """Zero pages that may hold values that are not finite."""
        ...
