"""Random draws of a synthetic world, with the same bits on every machine.

Words come from SplitMix64 by position; a distribution is a table of integer thresholds on them. The thresholds are
computed with `decimal`, whose exp and ln are correctly rounded; exp, log and pow of the C library or numpy are not
used, as their last bits differ between machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.seeds import random_bits

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 0xFFFFFFFFFFFFFFFF
# A context of our own, so that the caller's has no effect.
_EXACT = Context(prec=30, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, traps=[])
_GRID = 1024
_SPAN = 6
"""Range of a lognormal's grid in log space, in standard deviations to each side."""


def words(seed: int, start: int, count: int) -> NDArray[np.uint64]:
    """Return words `start` .. `start + count` of the stream of `seed`, each of 64 bits.

    >>> bool((words(5, 3, 4) == words(5, 0, 7)[3:]).all())
    True
    """
    return random_bits((seed + start * _GOLDEN) & _MASK, count)


def threshold(probability: float) -> int:
    """Return the bound below which a draw of 32 bits means yes; a product with 2**32 is exact."""
    return min(int(probability * 2**32), 2**32 - 1)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution over outcomes, drawn from 64 bits: the outcome is the number of `below` at or under the draw."""

    below: NDArray[np.uint64]
    """Cumulative thresholds, one fewer than outcomes, ascending."""

    def draw(self, bits: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return one outcome for each word of `bits`, in its shape."""
        return np.searchsorted(self.below, bits, side="right").astype(np.int64, copy=False)

    def lookup(self) -> NDArray[np.uint16]:
        """Return the outcomes [65536] of 16-bit draws, with shares in multiples of 2**-16."""
        middles = (np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)) + np.uint64(1 << 47)
        return self.draw(middles).astype(np.uint16)


def weighted(weights: Sequence[Decimal | float | int]) -> Distribution:
    """Return the distribution over positions of `weights`, which need not sum to one."""
    with localcontext(_EXACT):
        exact = [Decimal(weight) for weight in weights]
        running = list(accumulate(exact))
        below = [min(int(part / running[-1] * 2**64), _MASK) for part in running[:-1]]
    return Distribution(np.array(below, dtype=np.uint64))


def zipf(count: int, exponent: str) -> Distribution:
    """Return ranks 0 .. count - 1 with weight (rank + 1) ** -exponent."""
    with localcontext(_EXACT):
        return weighted([(-Decimal(exponent) * Decimal(r).ln()).exp() for r in range(1, count + 1)])


def exponential_ages(mean_years: int, count: int) -> Distribution:
    """Return ages 0 .. count - 1 with weight exp(-age / mean_years)."""
    with localcontext(_EXACT):
        return weighted([(Decimal(-age) / mean_years).exp() for age in range(count)])


def poisson(mean: str, highest: int) -> Distribution:
    """Return the distribution of counts 0 .. highest, truncated above."""
    with localcontext(_EXACT):
        ratios = [Decimal(mean) / k for k in range(1, highest + 1)]
        return weighted(list(accumulate([Decimal(1), *ratios], mul)))


def normal_grid() -> Distribution:
    """Return positions on a grid of 1,024 points from -6 to 6 standard deviations, by density."""
    with localcontext(_EXACT):
        return weighted([(-x * x / 2).exp() for x in _points()])


def lognormal_values(sigma: str, scale: int) -> NDArray[np.int64]:
    """Return scale * exp(sigma * x), rounded to integers, at the points x of `normal_grid`."""
    with localcontext(_EXACT):
        values = [int((scale * (Decimal(sigma) * x).exp()).to_integral_value()) for x in _points()]
    return np.array(values, dtype=np.int64)


def _points() -> list[Decimal]:
    return [Decimal((2 * j + 1 - _GRID) * _SPAN) / _GRID for j in range(_GRID)]
