"""Our own exp, ln, cos and sin against float64, in units in the last place."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tinsmith.ops.extension import module
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
