"""Our own exp, ln, cos and sin against float64, in units in the last place."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tinsmith.ops.exact import raised_cosine
from tinsmith.ops.extension import module
from tinsmith.ops.linear import rounded_root
from tinsmith.ops.native import NativeKernels

native = module()
k = NativeKernels()

Float32s = NDArray[np.float32]


def exp(x: Float32s) -> Float32s:
    y = np.empty_like(x)
    native.exp(x, y)
    return y


def ulps(actual: Float32s, exact: NDArray[np.float64]) -> float:
    """The largest error in spacings of float32 at the exact value."""
    return float(np.max(np.abs(actual - exact) / np.spacing(np.abs(exact).astype(np.float32))))


def test_exp_is_within_two_units() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            np.linspace(-87, 88, 400_001),
            rng.uniform(-1, 1, 100_000),
            rng.standard_normal(1000) * 1e-6,
            np.arange(-125, 127) * np.log(2) / 2,
        ]
    ).astype(np.float32)
    assert ulps(exp(x), np.exp(x.astype(np.float64))) <= 2


def test_exp_at_its_ends() -> None:
    x = np.array([0.0, -0.0, -87.4, -1e4, -np.inf, 88.0, 89.0, 1e4, np.inf], np.float32)
    y = exp(x)
    assert y[:5].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert np.isfinite(y).all()
    assert (y[5:] == y[5]).all()
    assert not np.signbit(y).any()


@pytest.mark.parametrize("isa", native.supported_isas())
@pytest.mark.parametrize("place", [0, 3, 15, 16, 20])
def test_exp_of_nan_is_nan_and_stays_where_it_is(isa: str, place: int) -> None:
    native.use_isa(isa)
    x = np.zeros(21, np.float32)
    x[place] = np.nan
    assert np.flatnonzero(np.isnan(exp(x))).tolist() == [place]


def test_ln_is_within_two_units_at_whole_numbers() -> None:
    """Equal logits: every term of the sum is 1, and the sum is exact."""
    sizes = np.unique(np.geomspace(1, 300_000, 400).astype(int))
    sums = np.array([k.row_stats(torch.full((1, n), 3.5), 1.0)[1].item() for n in sizes.tolist()])
    exact = np.log(sizes.astype(np.float64))
    assert sums[0] == 0.0
    assert ulps(sums[1:].astype(np.float32), exact[1:]) <= 2


def test_ln_is_within_two_units_just_above_one() -> None:
    """Two logits: the sum is 1 + exp(gap), rounded once."""
    gaps = -np.linspace(0.0, 15.0, 20_001).astype(np.float32)
    logits = torch.from_numpy(np.stack([np.zeros_like(gaps), gaps], axis=1))
    largest, log_sum = k.row_stats(logits, 1.0)
    sums = np.float32(1) + exp(gaps)
    assert not largest.any()
    assert ulps(log_sum.numpy(), np.log(sums.astype(np.float64))) <= 2


@pytest.mark.parametrize("isa", native.supported_isas())
def test_a_nan_among_the_logits_reaches_every_logprob_of_its_row(isa: str) -> None:
    native.use_isa(isa)
    logits = torch.zeros(3, 40)
    logits[1, 37] = torch.nan
    logits[2, 2] = torch.nan
    stats = k.row_stats(logits, 1.0)
    logprobs = k.gather_logprobs(logits, torch.zeros(3, dtype=torch.int32), stats)
    assert logprobs.isnan().tolist() == [False, True, True]


def test_rope_tables_are_within_one_unit_to_position_131072() -> None:
    frequencies = (5e5 ** (-np.arange(6) / 6)).astype(np.float32)
    rope = k.rope(frequencies, 131_073)
    angle = np.arange(131_073, dtype=np.float32)[:, None] * frequencies
    cos, sin = np.cos(angle.astype(np.float64)), np.sin(angle.astype(np.float64))
    assert ulps(rope.cos.numpy(), cos) <= 1
    assert ulps(rope.sin.numpy()[1:], sin[1:]) <= 1
    assert not rope.sin[0].any()


def test_it_is_half_a_cosine() -> None:
    for share in np.linspace(0.0, 1.0, 1001).tolist():
        assert raised_cosine(share) == pytest.approx((1 + math.cos(math.pi * share)) / 2, abs=3e-16)


def test_nothing_cancels_near_the_end() -> None:
    for left in (1e-3, 1e-6, 2.0**-40):
        assert raised_cosine(1.0 - left) == pytest.approx(math.sin(math.pi * (1.0 - (1.0 - left)) / 2) ** 2, rel=1e-14)


def test_it_falls_and_its_ends_are_exact() -> None:
    values = [raised_cosine(share) for share in np.linspace(0.0, 1.0, 513).tolist()]
    assert values == sorted(values, reverse=True)
    assert (values[0], values[256], values[-1]) == (1.0, 0.5, 0.0)


def test_its_bits_are_these() -> None:
    assert [raised_cosine(share).hex() for share in (0.1, 1 / 3, 0.75)] == PINNED


PINNED = ["0x1.f378709a22a80p-1", "0x1.8000000000001p-1", "0x1.2bec333018867p-3"]


def test_the_root_is_that_of_ieee_over_all_magnitudes() -> None:
    bits = np.random.default_rng(0).integers(0, 0x7F800000, 1_000_000, dtype=np.uint32)
    x = bits.view(np.float32)
    np.testing.assert_array_equal(rounded_root(torch.from_numpy(x)).numpy().view(np.uint32), np.sqrt(x).view(np.uint32))


@given(st.integers(0x3F800000, 0x40800000))
def test_it_is_right_beside_squares_and_where_a_root_lies_nearest_the_middle(bits: int) -> None:
    root = np.sqrt(np.uint32(bits).view(np.float32))
    middle = (np.float64(root) + np.float64(np.nextafter(root, np.float32(9.0)))) / 2
    x = np.float32(middle * middle)
    beside = np.array([np.nextafter(x, np.float32(0)), x, np.nextafter(x, np.float32(9))])
    np.testing.assert_array_equal(rounded_root(torch.from_numpy(beside)).numpy(), np.sqrt(beside))
