"""Windows after each paper: ranges of rows in time order.

A citer at time t counts for a paper of time t0 where t0 < t <= t0 + length. Times are years or days; with years, citers
from the paper's own year therefore do not count. These are the semantics of the `cdindex` package.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.errors import DataError

UNDATED = int(np.iinfo(np.int32).min)
"""Time of an undated paper, which is in no window and has none."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Rows [begin[i], end[i]) of paper i's window; both (N,), ascending."""

    begin: NDArray[np.uint32]
    end: NDArray[np.uint32]
    first_dated: int
    """Number of undated rows, which come first."""

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

    def pieces(self, count: int) -> list[tuple[int, int]]:
        """Split the rows into about `count` ranges, such that rows which share a window stay together."""
        rows = len(self.begin)
        cuts = np.flatnonzero(np.diff(self.begin)) + 1
        targets = np.linspace(0, rows, count, endpoint=False, dtype=np.int64)[1:]
        chosen = np.unique(np.searchsorted(cuts, targets))
        bounds = [0, *cuts[chosen[chosen < len(cuts)]].tolist(), rows]
        return [(begin, end) for begin, end in pairwise(bounds) if begin < end]


def undated_first(times: NDArray[np.int32]) -> NDArray[np.uint32] | None:
    """Return the order of rows (N,) with undated papers before all others; None if that is the given order."""
    undated = times == UNDATED
    if undated[: int(undated.sum())].all():
        return None
    return np.concatenate([np.flatnonzero(undated), np.flatnonzero(~undated)]).astype(np.uint32)
