"""Papers later than a paper, up to its window's end: a range of rows in time order.

A citer at time t counts for a paper of time t0 where t0 < t <= t0 + length. Times are years or days; where they
are years, citers of the paper's own year therefore do not count. These are the semantics of the `cdindex` package.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.errors import DataError

UNDATED = int(np.iinfo(np.int32).min)
"""The time of a paper whose time is not known: it lies in no window and has none."""


@dataclass(frozen=True, slots=True)
class Windows:
    """The rows [begin[i], end[i]) that lie in paper i's window; both (N,), ascending."""

    begin: NDArray[np.uint32]
    end: NDArray[np.uint32]
    first_dated: int
    """Rows before this one are undated."""

    @classmethod
    def after(cls, times: NDArray[np.int32], length: int) -> Windows:
        """Return the windows of papers at `times` (N,), ascending, undated ones first.

        Raises:
            DataError: the times are not in order.
        """
        if (times[1:] < times[:-1]).any():
            raise DataError("the papers are not in time order", fix="build the corpus again")
        first_dated = int(np.searchsorted(times, UNDATED, "right"))
        ends = np.minimum(times.astype(np.int64) + length, np.iinfo(np.int32).max).astype(np.int32)
        begin = np.searchsorted(times, times, "right").astype(np.uint32)
        end = np.searchsorted(times, ends, "right").astype(np.uint32)
        begin[:first_dated] = end[:first_dated] = first_dated
        return cls(begin, end, first_dated)

    def pieces(self, wanted: int) -> list[tuple[int, int]]:
        """Cut the rows into about `wanted` ranges, none of which parts rows that share a window."""
        rows = len(self.begin)
        cuts = np.flatnonzero(np.diff(self.begin)) + 1
        targets = np.linspace(0, rows, wanted, endpoint=False, dtype=np.int64)[1:]
        chosen = np.unique(np.searchsorted(cuts, targets))
        bounds = [0, *cuts[chosen[chosen < len(cuts)]].tolist(), rows]
        return [(begin, end) for begin, end in pairwise(bounds) if begin < end]


def undated_first(times: NDArray[np.int32]) -> NDArray[np.uint32] | None:
    """Return the order of rows (N,) that puts undated papers before all others; None where they are there already."""
    undated = times == UNDATED
    if undated[: int(undated.sum())].all():
        return None
    return np.concatenate([np.flatnonzero(undated), np.flatnonzero(~undated)]).astype(np.uint32)
