"""float64 exp and sums: accuracy against the C library, and bits that depend on the value only."""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinsmith.ops.exact import exp, exp_remainder, fsum, log, mean

GOLDEN_BITS = [
    "0x1.5bf0a8b14576ap+1",
    "0x1.78b56362cef38p-2",
    "0x1.599058c8c1a96p+0",
    "0x1.cf46d99d52b3ap-1",
    "0x1.1bb7015e84d3bp+15",
    "0x1.af5fe9a485c8ep-1011",
    "0x1.0000000000000p+0",
    "0x0.0000000000002p-1022",
    "0x1.79ea6d5290109p+51",
    "0x1.8826782b22164p+24",
]
LOG_MAX, LOG_MIN_NORMAL = 709.782712893384, -708.3964185322641


def sample(count: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    return np.concatenate(
        [
            rng.uniform(-745.0, 709.7, count),
            rng.uniform(-1.0, 1.0, count),
            rng.standard_normal(count) * 1e-6,
            np.arange(-1075, 1024) * math.log(2.0),  # where the rounding of the exponent flips
            (np.arange(-1075, 1023) + 0.5) * math.log(2.0),
        ]
    )


def test_exp_is_within_two_ulp_of_the_c_library() -> None:
    x = sample(20_000)
    expected = np.array([math.exp(value) for value in x])
    assert np.max(np.abs(exp(x) - expected) / np.spacing(expected)) <= 2.0


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="no wider type on this platform")
def test_exp_is_within_one_ulp_of_the_true_value() -> None:
    x = sample(20_000)
    true = np.exp(x.astype(np.longdouble))
    result = exp(x)
    assert np.max(np.abs(result.astype(np.longdouble) - true) / np.spacing(result)) < 1.0


def test_exp_has_these_bits() -> None:
    x = np.array([1.0, -1.0, 0.3, -0.1, 10.5, -700.25, 1e-17, -744.0, 35.74, 17.062])
    bits = [value.hex() for value in exp(x).tolist()]
    assert bits == GOLDEN_BITS


def test_exp_at_the_edges_is_exact() -> None:
    edges = np.array([np.inf, -np.inf, 0.0, -0.0, 710.0, 1e308, -746.0, -1e308])
    np.testing.assert_array_equal(exp(edges), [np.inf, 0.0, 1.0, 1.0, np.inf, np.inf, 0.0, 0.0])
    assert math.isnan(exp(np.array([np.nan]))[0])
    largest, beyond = exp(np.array([LOG_MAX, np.nextafter(LOG_MAX, 800.0)]))
    assert math.isfinite(largest)
    assert beyond == np.inf


def test_exp_underflows_gradually() -> None:
    x = np.array([LOG_MIN_NORMAL, -740.0, -745.13, -745.14])
    smallest = 5e-324
    np.testing.assert_allclose(exp(x)[:2], [math.exp(value) for value in x[:2]], rtol=1e-5)
    assert exp(x)[2] == smallest
    assert exp(x)[3] == 0.0


def test_exp_gives_each_element_the_same_bits_wherever_it_lies() -> None:
    x = sample(300)
    whole = exp(x)
    alone = np.array([exp(x[i : i + 1])[0] for i in range(x.size)])
    strided = exp(np.repeat(x, 3)[::3])
    shifted = exp(np.concatenate([[0.0], x]))[1:]
    for other in (alone, strided, shifted, exp(x[::-1])[::-1], exp(x.reshape(1, -1))[0]):
        np.testing.assert_array_equal(other.view(np.int64), whole.view(np.int64))


def test_exp_leaves_its_argument_alone_and_takes_an_empty_array() -> None:
    x = np.array([np.nan, 1.0])
    exp(x)
    np.testing.assert_array_equal(x, [np.nan, 1.0])
    assert exp(np.zeros((0, 3))).shape == (0, 3)


def test_exp_remainder_does_not_cancel() -> None:
    x = np.array([0.0, 1e-9, -1e-9, 0.1, -0.1, 2.0, -800.0])
    expected = [0.0, 5e-19, 5e-19, 0.005170918075647625, 0.004837418035959573]
    expected += [math.exp(2.0) - 3.0, 799.0]
    np.testing.assert_allclose(exp_remainder(x), expected, rtol=1e-9)


def test_exp_remainder_at_infinity() -> None:
    result = exp_remainder(np.array([np.inf, -np.inf, np.nan, 1e4]))
    np.testing.assert_array_equal(result, [np.inf, np.inf, np.nan, np.inf])


@settings(derandomize=True, database=None)
@given(st.floats(allow_nan=False))
def test_exp_remainder_is_never_negative(x: float) -> None:
    assert exp_remainder(np.array([x]))[0] >= 0.0


@settings(derandomize=True, database=None)
@given(st.lists(st.floats(-1e300, 1e300), max_size=30), st.randoms(use_true_random=False))
def test_fsum_does_not_depend_on_the_order(values: list[float], random: Random) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    assert fsum(np.array(values)) == fsum(np.array(shuffled))


def test_fsum_rounds_once() -> None:
    assert fsum(np.array([1e16, 1.0, -1e16])) == 1.0
    assert fsum(np.full(10, 0.1)) == 1.0
    assert fsum(np.zeros(0)) == 0.0
    assert fsum(np.array([[1.5, 2.5], [3.0, -7.0]], dtype=np.float32)) == 0.0


def test_fsum_follows_ieee_at_infinity() -> None:
    assert math.isnan(fsum(np.array([np.inf, -np.inf])))
    assert math.isnan(fsum(np.array([np.nan, 1.0])))
    assert fsum(np.array([-np.inf, 1.0])) == -math.inf


def test_fsum_survives_partial_sums_that_leave_the_range() -> None:
    assert fsum(np.array([1e308, 1e308, -1e308, -1e308, 3.0])) == 3.0
    assert fsum(np.full(4, 1e308)) == math.inf
    assert fsum(np.full(4, -1e308)) == -math.inf


def test_mean_divides_the_exact_sum() -> None:
    assert mean(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25


def test_log_is_the_logarithm_and_its_bits_are_fixed() -> None:
    x = np.concatenate([np.geomspace(1e-300, 1e300, 4001), np.linspace(0.5, 2.0, 4001)])
    with np.errstate(all="raise"):
        found = log(x)
    true = np.array([math.log(value) for value in x.tolist()])
    assert np.all(np.abs(found - true) <= 2 * np.spacing(np.abs(true)) + 1e-17)
    assert log(np.array([1.0, 0.0, np.inf])).tolist() == [0.0, -math.inf, math.inf]
    assert np.isnan(log(np.array([-1.0, np.nan]))).all()
    assert [value.hex() for value in log(np.array([0.2, 0.5, 3.0])).tolist()] == [
        "-0x1.9c041f7ed8d33p+0",
        "-0x1.62e42fefa39efp-1",
        "0x1.193ea7aad030bp+0",
    ]
