"""Figures of a row of logits: the rank of a token, and the entropy; their bits do not depend on the batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops import exact
from tinsmith.types.sampling import Spread


def no_spread(length: int) -> Spread:
    """Return a table for this many rows, filled with placeholders."""
    return Spread(
        ranks=np.zeros(length, np.int32),
        entropies=np.full(length, np.nan, np.float32),
        logprobs=np.full(length, np.nan, np.float32),
        best=np.full(length, -1, np.int32),
    )


def rank_of(logits: NDArray[np.float32], token: int) -> tuple[int, int]:
    """Return a token's rank in a row of logits, and the token of rank 1; of equal ones the lower id goes first.

    >>> rank_of(np.array([1.0, 3.0, 3.0], np.float32), 2)
    (2, 1)
    """
    own = logits[token]
    before = int((logits > own).sum()) + int((logits[:token] == own).sum())
    return 1 + before, int(logits.argmax())


def entropy_of(logits: NDArray[np.float32], largest: float, log_sum: float) -> float:
    """Return the entropy in nats of softmax(logits), as float64 rounded from sums independent of order.

    Args:
        logits: one row.
        largest: the largest logit.
        log_sum: ln(sum exp(logit - largest)).
    """
    logprobs = logits.astype(np.float64) - largest - log_sum
    there = logprobs > -np.inf
    return abs(-exact.fsum(exact.exp(logprobs[there]) * logprobs[there]))
