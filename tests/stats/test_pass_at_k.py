"""pass@k against all subsets, its bias and variance against the naive estimate, and boundaries against McNemar."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from tinsmith.stats.diversity import boundary, dyadic, pass_at_k, swapped, swapped_over_seeds
from tinsmith.stats.significance import mcnemar
from tinsmith.types.errors import DataError


@pytest.mark.parametrize("samples", [1, 2, 5, 8])
def test_it_is_the_mean_over_all_subsets(samples: int) -> None:
    for solved in range(samples + 1):
        flags = [True] * solved + [False] * (samples - solved)
        for k in range(1, samples + 1):
            subsets = [any(one) for one in combinations(flags, k)]
            assert pass_at_k(samples, solved, k) == Fraction(sum(subsets), len(subsets))


def test_it_equals_the_stable_product() -> None:
    for samples, solved, k in [(64, 3, 16), (64, 40, 8), (200, 1, 100)]:
        product = 1.0 - math.prod(1.0 - k / i for i in range(samples - solved + 1, samples + 1))
        assert abs(float(pass_at_k(samples, solved, k)) - product) < 1e-12


def test_it_has_no_bias_and_less_variance_than_the_naive_estimate() -> None:
    """The naive one looks at the first k samples alone; both are computed over the whole binomial law."""
    samples, k, chance = 16, 4, 0.2
    weight = [math.comb(samples, c) * chance**c * (1 - chance) ** (samples - c) for c in range(samples + 1)]
    found = np.array([float(pass_at_k(samples, c, k)) for c in range(samples + 1)])
    mean = float(np.dot(weight, found))
    truth = 1 - (1 - chance) ** k
    assert abs(mean - truth) < 1e-12
    variance = float(np.dot(weight, (found - mean) ** 2))
    assert variance < 0.5 * truth * (1 - truth)
    plug_in = np.array([1 - (1 - c / samples) ** k for c in range(samples + 1)])
    assert abs(float(np.dot(weight, plug_in)) - truth) > 1e-3


def test_what_cannot_be_looked_at_is_refused() -> None:
    for samples, solved, k in [(4, 1, 5), (4, 5, 1), (4, 1, 0)]:
        with pytest.raises(DataError, match="pass@k"):
            pass_at_k(samples, solved, k)


def test_budgets_double() -> None:
    assert dyadic(64) == (1, 2, 4, 8, 16, 32, 64)


def test_a_boundary_is_what_is_solved_at_all() -> None:
    before = boundary({"a": [True, False], "b": [False, False], "c": [True, True]})
    after = boundary({"a": [False, False], "b": [True, False], "c": [True, True]})
    assert (before, after - before, before - after) == ({"a", "c"}, {"b"}, {"a"})
    assert swapped(after, before) == mcnemar(1, 1)


def test_the_published_swap_is_not_significant() -> None:
    """Five gained and one lost, as arXiv:2604.14877 reports of bridge questions: p is not below 0.05."""
    everything = frozenset("abcdef")
    found = swapped(everything - {"f"}, frozenset("f"))
    assert found.p_value == 0.21875


def test_seeds_of_one_item_are_one_observation() -> None:
    nothing, one = frozenset[str](), frozenset("a")
    assert swapped_over_seeds([(one, nothing)]) == mcnemar(1, 0).p_value
    assert swapped_over_seeds([(one, nothing)] * 10) == 1.0
    six = frozenset("abcdef")
    assert swapped_over_seeds([(six, nothing)] * 3) == 2 / 2**6
