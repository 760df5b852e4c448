"""Index tensors that are made on the host and read on a device: each is copied once, however many layers ask for it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tinsmith.ops.forest import Forest

QUERY_TILE = 64
"""Query rows of a tile in the backward of attention (native/cuda/attention.cu)."""


@dataclass(slots=True)
class Uploads:
    """Copies by the identity of their originals, forgotten with them. An original is never written after it is made."""

    device: torch.device
    _copies: dict[tuple[int, torch.dtype], tuple[weakref.ref[Tensor], Tensor]] = field(
        default_factory=dict[tuple[int, torch.dtype], tuple[weakref.ref[Tensor], Tensor]]
    )

    def of(self, x: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
        """Return `x` on the device, contiguous, as `dtype`."""
        if x.device == self.device and x.dtype == dtype and x.is_contiguous():
            return x
        key = (id(x), dtype)
        found = self._copies.get(key)
        if found is not None and found[0]() is x:
            return found[1]
        copy = x.to(device=self.device, dtype=dtype).contiguous()
        self._copies[key] = (weakref.ref(x, lambda _: self._forget(key)), copy)
        return copy

    def _forget(self, key: tuple[int, torch.dtype]) -> None:
        self._copies.pop(key, None)


@dataclass(frozen=True, slots=True, eq=False)
class ForestLayout:
    """A forest as the backward of attention reads it, on a device."""

    path: Tensor
    """The row at each position up to each node's end, node after node."""
    path_begin: Tensor
    """Of each tile of query rows, where its node's path begins."""
    tile_row: Tensor
    tile_end: Tensor
    positions: Tensor
    sees_end: Tensor
    """Rows that see key row c are c .. sees_end[c]."""

    @staticmethod
    def of(forest: Forest, device: torch.device) -> ForestLayout:
        """Cut every node's rows into tiles, and find where each row's subtree ends."""
        begin, first = forest.rows.row_begin.tolist(), forest.rows.first_pos.tolist()
        lengths = np.diff(begin)
        ends = np.zeros(len(first), np.int64)
        for node in range(len(first) - 1, -1, -1):  # rows are depth first: a subtree ends where no deeper node follows
            after = node + 1
            while after < len(first) and first[after] > first[node]:
                after = int(ends[after])
            ends[node] = after
        row_ends = np.asarray(begin)[ends]
        path_begin = np.cumsum([0, *map(len, forest.paths)])
        tiles = [
            (path_begin[node], row, min(row + QUERY_TILE, begin[node + 1]))
            for node in range(len(first))
            for row in range(begin[node], begin[node + 1], QUERY_TILE)
        ]
        columns = np.array(tiles, np.int64).reshape(-1, 3).T.copy()
        path = np.concatenate([*forest.paths, np.zeros(0, np.int64)])
        arrays = (path, *columns, np.repeat(row_ends, lengths))
        path_t, path_begin_t, tile_row, tile_end, sees_end = (torch.from_numpy(x).to(device) for x in arrays)
        return ForestLayout(path_t, path_begin_t, tile_row, tile_end, forest.rows.positions.to(device), sees_end)
