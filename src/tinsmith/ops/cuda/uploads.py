"""Index tensors that are made on the host and read on a device: each is copied once, however many layers ask for it."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from tinsmith.ops.forest import Forest

QUERY_TILE = 64
"""Query rows of a tile in the backward of attention (native/cuda/attention.cu)."""


@dataclass(slots=True)
class Uploads:
    """Copies by the identity of their originals, forgotten with them. An original is never written after it is made."""

    device: torch.device
    _copies: MutableMapping[Tensor, dict[torch.dtype, Tensor]] = field(default_factory=WeakTensorKeyDictionary)

    def of(self, x: Tensor, dtype: torch.dtype = torch.int64) -> Tensor:
        """Return `x` on the device, contiguous, as `dtype`."""
        if x.device == self.device and x.dtype == dtype and x.is_contiguous():
            return x
        copies = self._copies.setdefault(x, {})
        if dtype not in copies:
            copies[dtype] = x.to(device=self.device, dtype=dtype).contiguous()
        return copies[dtype]


def forest_layout(forest: Forest, device: torch.device) -> tuple[Tensor, ...]:
    """A forest as the backward of attention reads it: path .. sees_end of AttentionBackArgs (native/cuda/args.h)."""
    begin = forest.rows.row_begin.numpy()
    sees_end = np.zeros(begin[-1], np.int64)
    # Rows are depth first: the last to see a key comes last.
    for path, end in zip(forest.paths, begin[1:], strict=True):
        sees_end[path] = end
    path_begin = np.cumsum([0, *map(len, forest.paths)])
    tiles = [
        (path_begin[node], row, min(row + QUERY_TILE, end))
        for node, (first, end) in enumerate(pairwise(begin.tolist()))
        for row in range(first, end, QUERY_TILE)
    ]
    columns = np.array(tiles, np.int64).reshape(-1, 3).T.copy()
    path, positions = np.concatenate([*forest.paths, np.zeros(0, np.int64)]), forest.rows.positions.numpy()
    return tuple(torch.from_numpy(x).to(device) for x in (path, *columns, positions, sees_end))
