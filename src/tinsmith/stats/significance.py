"""Tests between two systems on the same items, corrections for many tests, equivalence, and power.

Exact where it can be: McNemar's test is a sum of integers. Everything takes and gives plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from tinsmith.stats.confusion import Codes
from tinsmith.stats.rates import SCORES, Metric
from tinsmith.stats.resampling import generator
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import ConfigError, DataError

ALPHA: Final = 0.05
"""The level of every test, before any correction for many."""

_NORMAL = NormalDist()
_CHUNK_BITS = 1 << 22


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact McNemar test: `only_first` and `only_second` count the items that just one got right."""

    only_first: int
    only_second: int
    p_value: float


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """Test whether two systems are equally often right, from the items on which just one is.

    Under the null each such item is a fair coin: p = min(1, 2 P(X <= min(b, c))), X ~ Bin(b + c, 1/2),
    computed in integers and divided once. Source: McNemar, Psychometrika 12 (1947); exact form as in
    Agresti, "Categorical Data Analysis", sec. 11.1.

    Raises:
        DataError: a negative count.

    >>> mcnemar(5, 1).p_value
    0.21875
    """
    if only_first < 0 or only_second < 0:
        raise DataError("counts of items are not negative", value=(only_first, only_second))
    n = only_first + only_second
    term = total = 1
    for i in range(min(only_first, only_second)):
        term = term * (n - i) // (i + 1)
        total += term
    return McNemar(only_first, only_second, min(1.0, 2 * total / 2**n))


def mcnemar_of(first: Runs, second: Runs) -> McNemar:
    """Run McNemar's test on two single trained models; invalid answers are wrong.

    Raises:
        ConfigError: a system has several seeds; their answers to one item are not independent.
        DataError: the two were not scored on the same items.
    """
    a, b = _single(first, first.aligned(second))
    first_right, second_right = a == first.golds, b == first.golds
    return mcnemar(
        int((first_right & ~second_right).sum()), int((second_right & ~first_right).sum())
    )


def swap_test(
    first: Runs, second: Runs, metric: Metric, *, draws: int = 10_000, seed: int = 0
) -> float:
    """Return the two-sided p-value of a score's difference when answers are swapped item by item.

    Under the null the two answers to an item are exchangeable; each resample swaps every item's with
    probability 1/2. p = (1 + #{|d*| >= |d|}) / (draws + 1). Items with equal answers cannot matter.
    Source: Yeh, COLING 2000 (approximate randomisation); Fisher, "The Design of Experiments" (1935).

    Raises:
        ConfigError: a system has several seeds.
        DataError: the two were not scored on the same items.
    """
    second = first.aligned(second)
    a, b = _single(first, second)
    num_labels, width = len(first.labels), len(first.labels) + 1
    score = SCORES[metric]
    base = np.stack([first.counts()[0], second.counts()[0]]).astype(np.float64)
    observed = abs(float(score(base[0]) - score(base[1])))
    differ = np.flatnonzero(a != b)
    cells = first.golds[differ] * width * width + a[differ] * width + b[differ]
    order = np.argsort(cells, kind="stable")
    kinds, starts = np.unique(cells[order], return_index=True)
    if kinds.size == 0:
        return 1.0
    # What one swapped item of each kind does to the first matrix; the second gets the opposite.
    moves = np.zeros((kinds.size, num_labels, width))
    gold, from_a, from_b = kinds // (width * width), kinds // width % width, kinds % width
    rows = np.arange(kinds.size)
    moves[rows, gold, from_a] -= 1.0
    moves[rows, gold, from_b] += 1.0
    flat = moves.reshape(kinds.size, -1)
    rng, reached, done = generator(seed, "swaps"), 0, 0
    chunk = max(1, _CHUNK_BITS // differ.size)
    while done < draws:
        size = min(chunk, draws - done)
        coins = rng.integers(0, 2, size=(size, differ.size), dtype=np.uint8)
        swapped = np.add.reduceat(coins, starts, axis=1, dtype=np.int64).astype(np.float64)
        moved = (swapped @ flat).reshape(size, num_labels, width)
        drawn = np.abs(score(base[0] + moved) - score(base[1] - moved))
        reached += int((drawn >= observed - 1e-12).sum())
        done += size
    return (1 + reached) / (draws + 1)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted so that the chance of any false rejection in the family stays below alpha.

    Sorted ascending, the i-th (from 0) of m becomes the largest (m - j) p_j over j <= i, at most 1.
    Source: Holm, Scandinavian Journal of Statistics 6 (1979).

    Raises:
        DataError: something is not a probability.

    >>> holm([0.01, 0.04, 0.03])
    (0.03, 0.06, 0.06)
    """
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise DataError("p-values lie between 0 and 1", field="p_values", value=tuple(p_values))
    adjusted, highest, m = [0.0] * len(p_values), 0.0, len(p_values)
    for rank, i in enumerate(sorted(range(m), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (m - rank) * p_values[i]))
        adjusted[i] = highest
    return tuple(adjusted)


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Two one-sided tests on a difference of accuracies: `p_value` is the larger of the two."""

    difference: float
    p_value: float
    margin: float


def tost(only_first: int, only_second: int, n: int, margin: float = 0.01) -> Equivalence:
    """Test whether two accuracies on the same n items differ by less than `margin`, either way.

    d = (b - c) / n with the paired standard error sqrt((b + c) - (b - c)^2 / n) / n; the p-value is
    the larger of Phi(-(d + margin) / se) and Phi((d - margin) / se).
    Source: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987).

    Raises:
        DataError: more items on which just one was right than items.
        ConfigError: the margin is not a positive share.
    """
    if n < 1 or min(only_first, only_second) < 0 or only_first + only_second > n:
        raise DataError("b + c of n items", value=(only_first, only_second, n))
    if not 0.0 < margin < 1.0:
        raise ConfigError("a margin is a positive share", field="margin", value=margin)
    d = (only_first - only_second) / n
    se = math.sqrt(only_first + only_second - (only_first - only_second) ** 2 / n) / n
    if se == 0.0:
        return Equivalence(d, 0.0 if abs(d) < margin else 1.0, margin)
    worse = max(_NORMAL.cdf(-(d + margin) / se), _NORMAL.cdf((d - margin) / se))
    return Equivalence(d, worse, margin)


def detectable_difference(
    n: int, *, discordance: float = 0.3, power: float = 0.8, alpha: float = ALPHA
) -> float:
    """Return the smallest difference of accuracies that n shared items resolve.

    (z_{1-alpha/2} + z_power) sqrt(discordance / n), discordance being the share of items that just one
    of the two gets right. Source: Miller, arXiv:2411.00640 sec. 5, for paired items.

    >>> [round(detectable_difference(n), 3) for n in (500, 2000, 10_000)]
    [0.069, 0.034, 0.015]
    """
    _checked_power(n, discordance, alpha)
    reach = _NORMAL.inv_cdf(1.0 - alpha / 2.0) + _NORMAL.inv_cdf(power)
    return reach * math.sqrt(discordance / n)


def power_of(n: int, effect: float, *, discordance: float = 0.3, alpha: float = ALPHA) -> float:
    """Return the chance that n shared items show a true difference `effect` of accuracies.

    Both rejection sides counted; the inverse of `detectable_difference` up to the far side.
    """
    _checked_power(n, discordance, alpha)
    shift = abs(effect) / math.sqrt(discordance / n)
    z = _NORMAL.inv_cdf(1.0 - alpha / 2.0)
    return _NORMAL.cdf(shift - z) + _NORMAL.cdf(-shift - z)


def items_needed(
    effect: float, *, discordance: float = 0.3, power: float = 0.8, alpha: float = ALPHA
) -> int:
    """Return how many shared items resolve a difference `effect` of accuracies.

    >>> items_needed(0.05)
    942
    """
    if effect == 0.0:
        raise ConfigError("no number of items can show a difference of zero", field="effect")
    unit = detectable_difference(1, discordance=discordance, power=power, alpha=alpha)
    return math.ceil((unit / effect) ** 2)


def _checked_power(n: int, discordance: float, alpha: float) -> None:
    if n < 1 or not 0.0 < discordance <= 1.0 or not 0.0 < alpha < 1.0:
        raise ConfigError(
            "power needs items, a discordant share and a level",
            field="n, discordance, alpha",
            value=(n, discordance, alpha),
            allowed="n >= 1, 0 < discordance <= 1, 0 < alpha < 1",
        )


def _single(first: Runs, second: Runs) -> tuple[Codes, Codes]:
    if first.num_seeds != 1 or second.num_seeds != 1:
        raise ConfigError(
            "this test compares two trained models",
            field="seeds",
            value=(first.num_seeds, second.num_seeds),
            allowed="one each",
            fix="for several seeds use the difference over seeds and items",
        )
    return first.predicted[0], second.predicted[0]
