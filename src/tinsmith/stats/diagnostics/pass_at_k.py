"""pass@k without bias, exactly, and what a boundary is: which items are solved at all, and how two systems swap them.

Source: Chen et al., arXiv:2107.03374 (the estimator); arXiv:2604.14877 (the boundary, and turns as a second budget).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tinsmith.stats.sign_flips import sign_flip_p
from tinsmith.stats.significance import McNemar, mcnemar
from tinsmith.types.errors import DataError


def pass_at_k(samples: int, solved: int, k: int) -> Fraction:
    """Return the chance that one of k samples drawn without replacement is right: 1 - C(n - c, k) / C(n, k).

    It is the mean over all subsets of k samples, and so an estimate without bias of the chance that one of k fresh
    samples is right; n samples, c of them solved.

    >>> pass_at_k(4, 1, 2)
    Fraction(1, 2)
    """
    if not 1 <= k <= samples or not 0 <= solved <= samples:
        raise DataError(
            "pass@k looks at some of the samples that there are",
            field="n, c, k",
            value=(samples, solved, k),
            allowed="1 <= k <= n, 0 <= c <= n",
        )
    return 1 - Fraction(math.comb(samples - solved, k), math.comb(samples, k))


def dyadic(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4, ... up to `most`.

    >>> dyadic(10)
    (1, 2, 4, 8)
    """
    return tuple(2**power for power in range(most.bit_length()))


def boundary(right: Mapping[str, Sequence[bool]]) -> frozenset[str]:
    """Return the items that any of their samples solves."""
    return frozenset(item for item, flags in right.items() if any(flags))


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """What one system's boundary has that another's has not, and the other way round."""

    gained: tuple[str, ...]
    lost: tuple[str, ...]
    test: McNemar
    """Of the two numbers."""


def swapped(after: frozenset[str], before: frozenset[str]) -> Swap:
    """Compare two boundaries on the same items by McNemar's exact test."""
    gained, lost = sorted(after - before), sorted(before - after)
    return Swap(gained=tuple(gained), lost=tuple(lost), test=mcnemar(len(gained), len(lost)))


def swapped_over_seeds(pairs: Sequence[tuple[frozenset[str], frozenset[str]]]) -> float:
    """Return the p-value of boundaries that were found with several seeds, after and before for each.

    The seeds of one item hang together: an item's net over the seeds is one observation, and its sign is flipped whole.
    With one seed this is McNemar's test.
    """
    nets: dict[str, int] = {}
    for after, before in pairs:
        for item in after ^ before:
            nets[item] = nets.get(item, 0) + (1 if item in after else -1)
    return sign_flip_p([nets[item] for item in sorted(nets)])
