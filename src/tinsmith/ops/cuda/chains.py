"""Chains of a product as a list: runs of k, and how many waiting sums are added to each as it ends.

The same tree as `native/tree_sum.hpp`; a kernel walks the list, so that uniform chains, units of gradient, empty units
and tails are one code path.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

CHAIN: Final = 128
"""Terms of k in one chain of a product without segments (kLongestChain in native/table.hpp)."""


def chains_of(bounds: Sequence[int]) -> NDArray[np.int32]:
    """A chain for each of n segments that has terms, (.., 4): first k, end, sums added at the end, 0.

    At most `n.bit_length()` sums wait at once.
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
    """True if the smallest aligned block that holds units a and b lies wholly before a unit (None: the end)."""
    level = (a ^ b).bit_length()
    return unit is None or unit >> level != b >> level
