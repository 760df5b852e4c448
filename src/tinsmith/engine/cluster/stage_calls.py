"""Messages between the driver of a sharded base and its earlier stages.

The driver holds the last stage and calls the others in order, one call at a time. Rows leave a stage as the residual
stream, [rows, H] fp32, and their gradient comes back. All arguments and results can be pickled.
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
    """Values at one low-rank place: its weights, or their gradients."""

    place: Place
    a: FloatArray
    """Shape [in, sum of ranks]."""
    b: tuple[FloatArray, ...]
    """Per target, shape [rank, columns]."""
    magnitude: FloatArray | None
    """DoRA's magnitude, shape [out]."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedPart:
    """Low-rank part for a stage to compute with."""

    weights: PartNumbers
    columns: tuple[tuple[int, int], ...]
    """Per target, its columns in the output."""
    scaling: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeRows:
    """Rows of whole trees with one adapter."""

    step: int | None
    """Number under which `backward` refers to this pass; None if no backward pass follows."""
    ids: NDArray[np.int64]
    """Token of every row."""
    trees: tuple[tuple[TreeNode, ...], ...]
    adapter: int | None
    """Number of the adapter; None for the base alone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedRows:
    """New rows of many sequences over their caches; positions are those of `ops.paging.Rows`."""

    pool: int
    """Number of the pool that the tables refer to."""
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
    """Gradient of the input rows, [rows, H]; None from the first stage, which has no input rows."""
    parts: tuple[PartNumbers, ...]
    """Gradients of its parts of the adapter, in the order in which they were opened."""


class StageLostError(Exception):
    """Error for a stage that is gone, and with it the worker that it belongs to.

    Not a TinsmithError: the request is valid, and another worker must compute it.
    """


class StageCalls(Protocol):
    """Calls of an earlier stage, local or remote. Each either completes or leaves nothing behind.

    Errors of the stage are raised; a missing object is a BackendError, a missing stage a StageLostError.
    """

    def clear(self) -> None:
        """Drop everything that an earlier driver left."""
        ...

    def open(self, adapter: int, parts: Sequence[OpenedPart]) -> list[FloatArray | None]:
        """Hold an adapter's parts under a number, and return the norm of each DoRA part, [out]."""
        ...

    def close(self, adapters: Sequence[int], steps: Sequence[int]) -> None:
        """Drop adapters, and the state of forward passes whose backward pass will not come."""
        ...

    def forward(self, request: TreeRows, x: FloatArray | None) -> FloatArray:
        """Compute rows from those of the stage before, [rows, H]; the first stage gets None."""
        ...

    def backward(self, step: int, grad: FloatArray) -> StageGradients:
        """Return the gradients for the rows that `forward` returned, and drop their state."""
        ...

    def open_pool(self, pool: int, capacity: int) -> None:
        """Allocate this many pages for each local layer under a number, replacing earlier ones."""
        ...

    def sample(self, request: CachedRows, x: FloatArray | None) -> FloatArray:
        """Compute new rows over the pages of a pool, as `forward` does without one."""
        ...

    def routed(self) -> Recorded | None:
        """Return the mixture's routes of the rows computed last; None for a dense model."""
        ...

    def duplicate(self, pool: int, page: int, copies: Sequence[int]) -> None:
        """Copy one page's keys and values into others, in every local layer."""
        ...

    def scrub(self, pool: int, pages: Sequence[int]) -> None:
        """Zero pages that may hold non-finite values."""
        ...
