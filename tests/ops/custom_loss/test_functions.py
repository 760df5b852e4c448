"""Elementary functions of custom losses: accuracy against the C library, edges, and bits that are committed."""

import hashlib
import math
from collections.abc import Callable

import numpy as np
import pytest

from tinsmith.ops.custom_loss.functions import expm1, log1p, power, sigmoid, softplus, tanh

Function = Callable[[np.ndarray], np.ndarray]
X = np.concatenate(
    [
        np.random.default_rng(0).normal(size=2000) * 3,
        np.random.default_rng(1).normal(size=2000) * 1e-6,
        np.linspace(-0.4, 0.4, 801),
        np.linspace(-700.0, 700.0, 601),
    ]
)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (expm1, math.expm1),
        (lambda x: log1p(np.abs(x)), lambda x: math.log1p(abs(x))),
        (lambda x: log1p(-np.minimum(np.abs(x), 0.999)), lambda x: math.log1p(-min(abs(x), 0.999))),
        (tanh, math.tanh),
        (sigmoid, lambda x: 1.0 / (1.0 + math.exp(-x)) if x > 0 else math.exp(x) / (1.0 + math.exp(x))),
        (softplus, lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x)))),
    ],
)
def test_a_function_is_within_a_few_units_of_the_c_library(ours: Function, theirs: Callable[[float], float]) -> None:
    expected = np.array([theirs(float(x)) for x in X])
    np.testing.assert_array_max_ulp(ours(X), expected, maxulp=6)


@pytest.mark.parametrize("y", [2.0, 3.0, -1.0, -4.0, 0.5, 0.0, 1.0, 31.0, 1.7, -0.3, 40.0, 41.0])
def test_power_is_the_c_librarys(y: float) -> None:
    x = np.concatenate([np.linspace(0.01, 5.0, 400), [1.0, 0.5, 2.0]])
    if y == round(y):
        x = np.concatenate([x, -x])
    expected = np.array([math.pow(each, y) for each in x])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(power(x, np.full_like(x, y)), expected, rtol=4e-14)


def test_power_at_the_edges_is_ieees() -> None:
    with np.errstate(all="ignore"):
        x = np.array([0.0, 0.0, 0.0, -2.0, np.inf, np.inf, 1.0, np.nan, 0.5, -1.0])
        y = np.array([0.0, 2.0, -1.0, 0.5, 2.5, -2.5, np.nan, 0.0, np.inf, np.inf])
        np.testing.assert_array_equal(power(x, y), np.power(x, y))


def test_edges_are_exact() -> None:
    edges = np.array([0.0, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(expm1(edges), [0.0, np.inf, -1.0, np.nan])
        np.testing.assert_array_equal(tanh(edges), [0.0, 1.0, -1.0, np.nan])
        np.testing.assert_array_equal(sigmoid(edges), [0.5, 1.0, 0.0, np.nan])
        np.testing.assert_array_equal(softplus(edges)[1:], [np.inf, 0.0, np.nan])
        np.testing.assert_array_equal(log1p(np.array([0.0, np.inf, -1.0, -2.0])), [0.0, np.inf, -np.inf, np.nan])


def test_the_functions_have_these_bits() -> None:
    """Committed, so that another machine with other bits is found out."""
    x = np.round(X * 2.0**20) / 2.0**20
    found = hashlib.sha256()
    with np.errstate(all="ignore"):
        for values in (
            expm1(x), log1p(np.abs(x)), tanh(x), sigmoid(x), softplus(x),
            power(np.abs(x), np.full_like(x, 1.7)),
        ):  # fmt: skip
            found.update((values + 0.0).tobytes())
    assert found.hexdigest()[:16] == "d2c66a0edab591c5"
