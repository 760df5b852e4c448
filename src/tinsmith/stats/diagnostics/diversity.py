"""How many ways a system goes about an item: different sequences of actions, distinct n-grams, and their entropy.

Source: arXiv:2604.14877 counts different sequences of queries a question; distinct-n is that of Li et al.,
arXiv:1510.03055.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

Actions = tuple[str, ...]
"""What was done, in its order."""


def different(sequences: Sequence[Actions]) -> int:
    """Return how many different sequences there are.

    >>> different([("a", "b"), ("b", "a"), ("a", "b")])
    2
    """
    return len(set(sequences))


def distinct_n(sequences: Sequence[Actions], n: int) -> Fraction | None:
    """Return the share of different n-grams among all of them; None where no sequence is that long.

    >>> distinct_n([("a", "b"), ("a", "b")], 2)
    Fraction(1, 2)
    """
    grams = [one[start : start + n] for one in sequences for start in range(len(one) - n + 1)]
    return Fraction(len(set(grams)), len(grams)) if grams else None


def entropy(found: Sequence[object]) -> float:
    """Return the entropy of what was found, in nats: 0 where all is alike or nothing is there.

    >>> entropy(["a", "a"]), round(entropy(["a", "b"]), 6)
    (0.0, 0.693147)
    """
    counts = sorted(Counter(found).values())
    total = sum(counts)
    return math.fsum(-count / total * math.log(count / total) for count in counts if count < total)
