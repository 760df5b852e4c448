"""How many ways there are, against counts by hand."""

from __future__ import annotations

import math
from fractions import Fraction

from tinsmith.stats.diagnostics.diversity import different, distinct_n, entropy

WAYS = [("look a", "look b"), ("look a", "look b"), ("look b",), ()]


def test_sequences_are_counted_whole() -> None:
    assert different(WAYS) == 3


def test_distinct_n_counts_n_grams() -> None:
    assert distinct_n(WAYS, 1) == Fraction(2, 5)
    assert distinct_n(WAYS, 2) == Fraction(1, 2)
    assert distinct_n(WAYS, 3) is None


def test_entropy_is_that_of_the_shares() -> None:
    assert entropy([1, 2, 3, 4]) == math.log(4)
    assert entropy([]) == entropy(["x"] * 5) == 0.0
    assert abs(entropy("aab") - (math.log(3) - 2 / 3 * math.log(2))) < 1e-12
