"""Spearman's rank correlation, with mean ranks where values are tied."""

from __future__ import annotations

import math
from collections.abc import Sequence


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the correlation of ranks, -1 to 1; 0 where one side is constant, as nothing goes along with it.

    >>> spearman([0.0, 0.5, 1.0], [0.1, 0.2, 0.9])
    1.0
    """
    a, b = _centred(x), _centred(y)
    scale = math.fsum(one * one for one in a) * math.fsum(one * one for one in b)
    if scale == 0.0:
        return 0.0
    return math.fsum(one * other for one, other in zip(a, b, strict=True)) / math.sqrt(scale)


def _centred(values: Sequence[float]) -> list[float]:
    """Return ranks less their mean."""
    middle = (len(values) + 1) / 2
    return [
        sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 - middle
        for one in values
    ]
