"""Paired tests of two systems, corrections for multiple tests, power, and intervals of a paired gain.

Exact where it can be: McNemar's test is a sum of integers. Everything takes and gives plain numbers. Several pairs with
one prompt are no independent evidence: what a prompt's pairs gained in sum, its net, is one observation; without an
effect its sign is a fair coin. Where every net is -1, 0 or 1 flipping signs is McNemar's test.
Source: Fisher, "The Design of Experiments" (1935), sec. 21.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Final

import numpy as np

from tinsmith.stats.draws import generator
from tinsmith.stats.intervals import Interval, checked_level
from tinsmith.stats.rates import SCORES, Codes, FloatArray, Metric
from tinsmith.types.errors import ConfigError, DataError

ALPHA: Final = 0.05  # The level of every test, before any correction for many.

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact McNemar test: `only_first` and `only_second` count the items that one system alone got right."""

    only_first: int
    only_second: int
    p_value: float


def mcnemar(only_first: int, only_second: int) -> McNemar:
    """Test whether two systems are equally accurate, from the items on which they disagree.

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


def items_needed(effect: float, *, discordance: float = 0.3, power: float = 0.8, alpha: float = ALPHA) -> int:
    """Return the number of shared items that resolve a difference `effect` of accuracies.

    n of them resolve (z_{1-alpha/2} + z_power) sqrt(discordance / n), discordance being the share of items that just
    one of the two gets right. Source: Miller, arXiv:2411.00640 sec. 5, for paired items.

    >>> items_needed(0.05)
    942
    """
    if effect == 0.0:
        raise ConfigError("no number of items can show a difference of zero", field="effect")
    if not 0.0 < discordance <= 1.0 or not 0.0 < alpha < 1.0 or not 0.0 < power < 1.0:
        what, allowed = "power needs a discordant share and a level", "0 < discordance <= 1, 0 < alpha, power < 1"
        raise ConfigError(what, field="discordance, alpha, power", value=(discordance, alpha, power), allowed=allowed)
    reach = _NORMAL.inv_cdf(1.0 - alpha / 2.0) + _NORMAL.inv_cdf(power)
    return math.ceil((reach * math.sqrt(discordance) / effect) ** 2)


_DRAWS = 10_000
_CHUNK = 1 << 22
FLIPS: Final = 100_000  # Flips of exact gains that are drawn where not all are counted.
_LISTED = 16  # Units up to which every flip is gone through.
_WORK = 50_000_000  # Most additions of the count over sums.
_ROUNDING = 1e-9
_STEPS = 40  # Halvings of a bracket: far below what a page shows.


def sign_flip_p(nets: Sequence[int]) -> float:
    """Return the two-sided p-value of the sum of nets under all flips of their signs, every flip counted.

    Relative rounding is below 1e-16 times the number of nets.

    >>> sign_flip_p([1, 1, 1, 1, 1, -1]) == mcnemar(5, 1).p_value
    True
    >>> sign_flip_p([2, 2, 2])
    0.25
    """
    sizes = [abs(net) for net in nets if net]
    if all(size == 1 for size in sizes):
        return mcnemar(sum(net > 0 for net in nets), sum(net < 0 for net in nets)).p_value
    total, reached = sum(sizes), abs(sum(nets))
    # chance[s]: that the nets with a positive sign have the sum s; the whole sum is then 2 s - total.
    chance = np.zeros(total + 1)
    chance[0] = 1.0
    for size in sizes:
        moved = np.zeros_like(chance)
        moved[size:] = chance[: total + 1 - size]
        chance = 0.5 * chance + 0.5 * moved
    sums = np.abs(2 * np.arange(total + 1) - total)
    return min(1.0, float(chance[sums >= reached].sum()))


def flip_p(gains: Sequence[Fraction], *, seed: int = 0) -> tuple[float, bool]:
    """Return the two-sided p-value of a sum under sign flips of its terms, and True if it is exact.

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
    """Enumerate all sign flips with the first sign fixed, as flipping all signs changes no absolute sum."""
    exact = np.int64 if sum(map(abs, nets)) <= np.iinfo(np.int64).max else object
    sums = np.array(nets[:1], exact)
    for net in nets[1:]:
        sums = np.concatenate([sums + net, sums - net])
    reached = abs(sum(nets))
    return int((np.abs(sums) >= reached).sum()) / len(sums)


def _drawn_p(gains: FloatArray, seed: int) -> float:
    least = abs(float(gains.sum())) - _ROUNDING
    drawn = _signs(generator(seed, "sign flips"), FLIPS, gains.size, _CHUNK // 2)
    return (1 + sum(int((np.abs(signs @ gains) >= least).sum()) for signs in drawn)) / (1 + FLIPS)


def swap_p(
    golds: Codes, first: Codes, second: Codes, num_labels: int, metric: Metric, *, draws: int, seed: int
) -> float:
    """Return the two-sided p-value of a difference in a score when two systems' answers to an item may be swapped.

    `golds` (n,) are codes, `first` (S, n) and `second` (T, n) the answers, K = `num_labels` standing for invalid. The
    answers of a system's seeds are pooled, and swapped together. All swaps are gone through where few items differ;
    else `draws` are drawn, and p = (1 + those that reach the difference) / (1 + those drawn).
    Source: Yeh, "More accurate tests for the statistical significance of result differences" (2000).
    """
    # Whole numbers, which add up to the same in any order: as many answers of either system.
    mine, theirs = _cells(golds, first, num_labels) * len(second), _cells(golds, second, num_labels) * len(first)
    gains = (mine - theirs)[(mine != theirs).any(axis=1)]
    if not len(gains):
        return 1.0
    both, score = (mine + theirs).sum(axis=0), SCORES[metric]

    def apart(signs: FloatArray) -> FloatArray:
        moved = signs @ gains
        ends = ((both + side * moved).reshape(len(signs), num_labels, num_labels + 1) for side in (1.0, -1.0))
        above, below = map(score, ends)
        return np.abs(above - below)

    least = float(apart(np.ones((1, len(gains))))[0]) - _ROUNDING
    if len(gains) <= _LISTED:
        places = np.arange(2 ** (len(gains) - 1))[:, None] >> np.arange(len(gains))
        return float((apart(1.0 - 2.0 * (places & 1)) >= least).mean())
    signs = _signs(generator(seed, "swaps"), draws, len(gains), _CHUNK // 2)
    return (1 + sum(int((apart(some) >= least).sum()) for some in signs)) / (1 + draws)


def _cells(golds: Codes, predicted: Codes, num_labels: int) -> FloatArray:
    width = num_labels + 1
    cells = np.zeros((golds.size, num_labels * width))
    for row in predicted:
        cells[np.arange(golds.size), golds * width + row] += 1.0
    return cells


def _signs(rng: np.random.Generator, draws: int, width: int, cells: int) -> Iterator[FloatArray]:
    """Yield `draws` rows of -1 and 1, in chunks of limited size."""
    chunk = max(1, cells // width)
    for start in range(0, draws, chunk):
        flips = rng.integers(0, 2, size=(min(chunk, draws - start), width), dtype=np.uint8)
        yield 2.0 * flips.astype(np.float64) - 1.0


def paired_interval(helped: int, hurt: int, n: int, level: float = 0.95) -> Interval:
    """Return an interval of a gain in accuracy on n independent pairs.

    Tango's score interval, an approximation. Where it would leave out zero and McNemar's exact test does not,
    it is widened to hold Clopper and Pearson's interval of the share of discordant pairs that were helped,
    times the share of pairs that are discordant: so the two never contradict each other.
    Sources: Tango, Statistics in Medicine 17 (1998), eq. 9 and 10; Clopper and Pearson, Biometrika 26 (1934).
    """
    tail, moved = (1.0 - checked_level(level)) / 2.0, helped + hurt
    if n < 1 or min(helped, hurt) < 0 or moved > n:
        raise DataError("helped + hurt of n pairs", value=(helped, hurt, n))
    gain, reach = (helped - hurt) / n, _NORMAL.inv_cdf(1.0 - tail) ** 2

    def accepted(delta: float) -> bool:
        return (helped - hurt - n * delta) ** 2 <= reach * n * _variance(helped, hurt, n, delta)

    low, high = _last_accepted(accepted, gain, -1.0), _last_accepted(accepted, gain, 1.0)
    if not low <= 0.0 <= high and mcnemar(helped, hurt).p_value > 2.0 * tail:
        from scipy.special import betaincinv  # studies are read without it

        share = moved / n
        least = 0.0 if helped == 0 else float(betaincinv(helped, hurt + 1, tail))
        most = 1.0 if hurt == 0 else float(betaincinv(helped + 1, hurt, 1.0 - tail))
        low, high = min(low, (2.0 * least - 1.0) * share), max(high, (2.0 * most - 1.0) * share)
    return Interval(low, high, level)


def clustered_interval(nets: Sequence[int], sizes: Sequence[int], *, seed: int, level: float = 0.95) -> Interval:
    """Return an interval of a gain in accuracy on clustered pairs: the gains that the sign-flip test does not reject.

    `nets` are what each prompt's pairs gained in sum, `sizes` how many pairs each prompt has.
    """
    alpha = 1.0 - checked_level(level)
    net, size = np.array(nets, np.float64), np.array(sizes, np.float64)
    if not net.any():
        return paired_interval(0, 0, len(nets), level)  # as if each prompt were one pair
    pairs = [(signs @ net, signs @ size) for signs in _signs(generator(seed, "flips"), _DRAWS, net.size, _CHUNK)]
    flipped_nets, flipped_sizes = map(np.concatenate, zip(*pairs, strict=True))
    total, count = float(net.sum()), float(size.sum())

    def accepted(gain: float) -> bool:
        drawn = np.abs(flipped_nets - gain * flipped_sizes)
        reached = int((drawn >= abs(total - gain * count) - 1e-9).sum())
        return (1 + reached) / (_DRAWS + 1) > alpha

    gain = total / count
    return Interval(_last_accepted(accepted, gain, -1.0), _last_accepted(accepted, gain, 1.0), level)


def least_moved(alpha: float) -> int:
    """Return the number of discordant observations from which the exact p-value can reach alpha.

    >>> least_moved(0.05)
    6
    """
    return math.ceil(math.log2(2.0 / alpha))


def _variance(helped: int, hurt: int, n: int, delta: float) -> float:
    """N times the variance of the gain, were it delta: with the likeliest chance of being hurt."""
    half = 2.0 * n - helped + hurt
    b = half * delta - helped - hurt
    c = -hurt * delta * (1.0 - delta)
    likeliest = (math.sqrt(max(b * b - 8.0 * n * c, 0.0)) - b) / (4.0 * n)
    return max(2.0 * likeliest + delta * (1.0 - delta), 0.0)


def _last_accepted(accepted: Callable[[float], bool], inside: float, end: float) -> float:
    """The value farthest towards `end` that is kept, where all between it and `inside` are."""
    if inside == end or accepted(end):
        return end
    outside = end
    for _ in range(_STEPS):
        middle = (inside + outside) / 2.0
        inside, outside = (middle, outside) if accepted(middle) else (inside, middle)
    return inside
