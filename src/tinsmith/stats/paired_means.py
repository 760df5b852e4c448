"""Two means over the same units, before and after or of two systems: the gain, its interval, and a test of it.

A unit has one exact fraction in each (several samples of it are averaged before they come here); units are what is
drawn with replacement, and what a sign flip turns. Fractions make ties exact, so that the test counts them rightly.
Sources: Efron and Tibshirani (1993), ch. 8 and 13; Fisher, "The Design of Experiments" (1935), sec. 21.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.intervals import Interval, percentile
from tinsmith.stats.rates import FloatArray
from tinsmith.stats.resampling import generator
from tinsmith.stats.sign_flips import sign_flip_p
from tinsmith.stats.significance import ALPHA
from tinsmith.types.errors import DataError

FLIPS: Final = 100_000
"""Flips that are drawn where not all are counted."""
_LISTED: Final = 16
"""Units up to which every flip is gone through."""
_WORK: Final = 50_000_000
"""Most additions of the count over sums."""
_CHUNK: Final = 1 << 21
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two means over the same n items, and the gain of the second over the first."""

    n: int
    first: float
    second: float
    interval: Interval | None
    """Of the gain, by the bootstrap over units; None where there is one unit only."""
    p_value: float
    """Two-sided, by flips of the sign of each unit's gain."""
    risen: int
    fallen: int
    """Items whose own value went up, and down."""

    @property
    def gain(self) -> float:
        """Return the second mean minus the first."""
        return self.second - self.first

    @property
    def apart(self) -> bool:
        """True if the interval leaves out 0."""
        return self.interval is not None and not self.interval.holds(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedMeans(Compared):
    """Two means over items that are units themselves."""

    exact: bool
    """True if every flip is counted; else FLIPS are drawn."""

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves out 0 and the test refuses 0 too: of few units the interval is too short."""
        return self.apart and self.p_value <= ALPHA


def paired_means(first: Mapping[str, Fraction], second: Mapping[str, Fraction], bootstrap: Bootstrap) -> PairedMeans:
    """Compare two values of each unit, over the units that both have.

    Raises:
        DataError: they have no unit in common.
    """
    units = sorted(first.keys() & second.keys())
    if not units:
        raise DataError("no unit has a value in both", field="units")
    gains = [second[unit] - first[unit] for unit in units]
    p_value, exact = flip_p(gains, seed=bootstrap.seed)
    return PairedMeans(
        n=len(units),
        first=float(sum((first[unit] for unit in units), Fraction()) / len(units)),
        second=float(sum((second[unit] for unit in units), Fraction()) / len(units)),
        interval=mean_interval([float(gain) for gain in gains], bootstrap),
        p_value=p_value,
        exact=exact,
        risen=sum(gain > 0 for gain in gains),
        fallen=sum(gain < 0 for gain in gains),
    )


def mean_interval(values: Sequence[float], bootstrap: Bootstrap) -> Interval | None:
    """Return the percentile interval of a mean over units drawn with replacement; None for one unit or none."""
    if len(values) < 2:
        return None
    return percentile(_drawn_means(np.asarray(values, np.float64), bootstrap), bootstrap.level)


def flip_p(gains: Sequence[Fraction], *, seed: int = 0) -> tuple[float, bool]:
    """Return the two-sided p-value of a sum under flips of its terms' signs, and whether every flip was counted.

    Gains of 0 cannot matter. All 2^n flips are gone through for few units, and counted by their sums where the gains'
    common denominator is small; else flips are drawn, and p = (1 + those that reach the sum) / (1 + those drawn).

    >>> flip_p([Fraction(1, 2), Fraction(1, 3), Fraction(1, 4)])
    (0.25, True)
    """
    moved = [gain for gain in gains if gain]
    if not moved:
        return 1.0, True
    scale = math.lcm(*(gain.denominator for gain in moved))
    nets = [int(gain * scale) for gain in moved]
    if len(nets) <= _LISTED:
        return _listed_p(nets), True
    if sum(map(abs, nets)) * len(nets) <= _WORK:
        return sign_flip_p(nets), True
    return _drawn_p(np.array([float(gain) for gain in moved]), seed), False


def _listed_p(nets: Sequence[int]) -> float:
    """Go through every flip; the first sign may stay, as turning all of them changes no size."""
    sums = [nets[0]]
    for net in nets[1:]:
        sums = [total + net for total in sums] + [total - net for total in sums]
    reached = abs(sum(nets))
    return sum(abs(total) >= reached for total in sums) / len(sums)


def _drawn_p(gains: FloatArray, seed: int) -> float:
    rng, least = generator(seed, "sign flips"), abs(float(gains.sum())) - _ROUNDING
    reached, done, chunk = 0, 0, max(1, _CHUNK // gains.size)
    while done < FLIPS:
        rows = min(chunk, FLIPS - done)
        signs = 2.0 * rng.integers(0, 2, size=(rows, gains.size), dtype=np.uint8) - 1.0
        reached += int((np.abs(signs @ gains) >= least).sum())
        done += rows
    return (1 + reached) / (1 + FLIPS)


def _drawn_means(values: FloatArray, bootstrap: Bootstrap) -> FloatArray:
    rng, chunk = generator(bootstrap.seed, "paired means"), max(1, _CHUNK // values.size)
    parts: list[FloatArray] = []
    for start in range(0, bootstrap.draws, chunk):
        rows = min(chunk, bootstrap.draws - start)
        parts.append(values[rng.integers(0, values.size, size=(rows, values.size))].mean(axis=1))
    return np.concatenate(parts)
