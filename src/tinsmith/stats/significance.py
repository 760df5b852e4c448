"""Tests between two systems on the same items, corrections for many tests, equivalence, and power.

Exact where it can be: McNemar's test is a sum of integers. Everything takes and gives plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from tinsmith.types.errors import ConfigError, DataError

ALPHA: Final = 0.05  # The level of every test, before any correction for many.

_NORMAL = NormalDist()


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


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted so that the chance of any false rejection in the family stays below alpha.

    Sorted ascending, the i-th (from 0) of m becomes the largest (m - j) p_j over j <= i, at most 1.
    Source: Holm, Scandinavian Journal of Statistics 6 (1979).

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


def detectable_difference(n: int, *, discordance: float = 0.3, power: float = 0.8, alpha: float = ALPHA) -> float:
    """Return the smallest difference of accuracies that n shared items resolve.

    (z_{1-alpha/2} + z_power) sqrt(discordance / n), discordance being the share of items that just one
    of the two gets right. Source: Miller, arXiv:2411.00640 sec. 5, for paired items.

    >>> [round(detectable_difference(n), 3) for n in (500, 2000, 10_000)]
    [0.069, 0.034, 0.015]
    """
    _checked_power(n, discordance, alpha)
    reach = _NORMAL.inv_cdf(1.0 - alpha / 2.0) + _NORMAL.inv_cdf(power)
    return reach * math.sqrt(discordance / n)


def items_needed(effect: float, *, discordance: float = 0.3, power: float = 0.8, alpha: float = ALPHA) -> int:
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
        what = "power needs items, a discordant share and a level"
        allowed = "n >= 1, 0 < discordance <= 1, 0 < alpha < 1"
        raise ConfigError(what, field="n, discordance, alpha", value=(n, discordance, alpha), allowed=allowed)
