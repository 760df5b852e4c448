"""Index lists for kernels: device copies of index tensors, the paths of a forest, the chains of a product.

Chains are runs of k, each with the number of pending sums to add at its end: the same tree as in `native/tree_sum.hpp`.
A kernel walks the list, so that uniform chains, gradient units, empty units and tails share one code path.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from tinsmith.ops.forest import Forest

QUERY_TILE = 64
"""Query rows per tile in the backward pass of attention (native/cuda/attention.cu)."""
CHAIN: Final = 128
"""Terms of k in a chain of a product without segments (kLongestChain in native/table.hpp)."""


@dataclass(slots=True)
class Uploads:
    """Device copies, cached by the identity of their originals and dropped with them.

    Originals must not be modified.
    """

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
    """Lay out a forest for attention's backward pass: path .. sees_end of AttentionBackArgs (native/cuda/args.h)."""
    begin = forest.rows.row_begin.numpy()
    sees_end = np.zeros(begin[-1], np.int64)
    # Rows are depth first, so the last row that attends to a key comes last.
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


def chains_of(bounds: Sequence[int]) -> NDArray[np.int32]:
    """Return a chain for each non-empty one of n segments, (.., 4): first k, end, sums added at the end, 0.

    At most `n.bit_length()` sums are pending at once.
    """
    runs = [(i, a, b) for i, (a, b) in enumerate(pairwise(bounds)) if a < b]
    out = np.zeros((len(runs), 4), np.int32)
    waiting: list[int] = []
    for at, (unit, begin, end) in enumerate(runs):
        after = runs[at + 1][0] if at + 1 < len(runs) else None
        merged, first = 0, unit
        while waiting and complete(waiting[-1], unit, after):
            first = waiting.pop()
            merged += 1
        waiting.append(first)
        out[at] = begin, end, merged, 0
    return out


def complete(a: int, b: int, unit: int | None) -> bool:
    """True if the smallest aligned block that holds units a and b ends before a given unit (None: the end)."""
    level = (a ^ b).bit_length()
    return unit is None or unit >> level != b >> level
