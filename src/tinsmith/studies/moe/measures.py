"""The figures of `moe/wander`: changed routes with their interval, moved log-probabilities, parted texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.stats.intervals import wilson
from tinsmith.studies.moe.results import Compared, Greedy
from tinsmith.studies.moe.seen import Seen
from tinsmith.studies.moe.settings import Side
from tinsmith.types.datum import IntArray
from tinsmith.types.seeds import derive

_RESAMPLES: Final = 2000


def compared(one: Sequence[Seen], other: Sequence[Seen]) -> Compared:
    """Compare two computations of the same texts.

    The interval is a bootstrap's over texts, as a changed route changes what later tokens of its text read; where no
    route changed, Wilson's over tokens.
    """
    changed = np.array([int(changed_routes(a, b).sum()) for a, b in zip(one, other, strict=True)], np.int64)
    tokens = np.array([len(each.experts) for each in one], np.int64)
    p, q = (np.concatenate([each.logprobs for each in side]) for side in (one, other))
    moved = np.abs(p.astype(np.float64) - q.astype(np.float64))
    low, high = _interval(changed, tokens)
    return Compared(
        tokens=int(tokens.sum()),
        changed_routes=int(changed.sum()),
        low=low,
        high=high,
        texts=len(changed),
        changed_texts=int(np.count_nonzero(changed)),
        unequal_bits=float(np.mean(p.view(np.uint32) != q.view(np.uint32))),
        max_logprob_difference=float(moved.max()),
        mean_logprob_difference=float(moved.mean()),
    )


def changed_routes(one: Seen, other: Seen) -> NDArray[np.bool_]:
    """(tokens,): whether a token takes another expert in some layer."""
    return (one.experts != other.experts).any(axis=(1, 2))


def greedy_parted(side: Side, batch: int, together: Sequence[IntArray], alone: Sequence[IntArray]) -> Greedy:
    """Say where texts of a batch part from the same prompts' by themselves."""
    first = [int(np.flatnonzero(a != b)[0]) for a, b in zip(together, alone, strict=True) if not np.array_equal(a, b)]
    return Greedy(
        engine=side.engine,
        dtype=side.dtype,
        batch=batch,
        texts=len(alone),
        parted=len(first),
        first=tuple(sorted(first)),
    )


def _interval(changed: NDArray[np.int64], tokens: NDArray[np.int64]) -> tuple[float, float]:
    if not changed.any():
        none = wilson(0, int(tokens.sum()))
        return none.low, none.high
    rng = np.random.default_rng(derive(0, "wander", "bootstrap"))
    rows = rng.integers(0, len(changed), (_RESAMPLES, len(changed)))
    shares = changed[rows].sum(axis=1) / tokens[rows].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975], method="inverted_cdf")
    return float(low), float(high)
