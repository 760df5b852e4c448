"""Sampler against trainer, by hand."""

import math

import numpy as np
import pytest

from tinsmith.stats.parity import parity
from tinsmith.types.errors import DataError


def test_one_model_has_no_difference_at_all() -> None:
    logprobs = np.float32([-0.1, -2.5, -1e-9])
    found = parity(logprobs, logprobs.copy())
    assert found.exact
    assert set(found.metrics().values()) == {0.0}


def test_the_smallest_difference_is_seen() -> None:
    sampler = np.float32([-1.0, -2.0])
    trainer = np.nextafter(sampler, np.float32(0))
    found = parity(sampler, trainer)
    assert (found.unequal_bits, found.exact) == (2, False)
    assert 0 < found.max_difference < 1e-6


def test_signed_zeros_are_other_bits_without_a_difference() -> None:
    found = parity(np.float32([0.0]), np.float32([-0.0]))
    assert (found.unequal_bits, found.max_difference) == (1, 0.0)


def test_the_estimators_are_the_references() -> None:
    found = parity(np.float32([-1.0, -1.0]), np.float32([-1.1, -0.9]))
    d = np.float64(np.float32(-1.0)) - np.float64(np.float32(-1.1))
    assert found.kl_k1 == pytest.approx(0.0, abs=1e-7)
    assert found.kl_k2 == pytest.approx(0.005, abs=1e-8)
    expected = (math.exp(-d) - 1 + d + math.exp(d) - 1 - d) / 2
    assert found.kl_k3 == pytest.approx(expected, rel=1e-5)
    assert found.max_difference == pytest.approx(0.1, abs=1e-7)


@pytest.mark.parametrize(
    ("sampler", "trainer", "what"),
    [
        (np.float64([-1.0]), np.float32([-1.0]), "float32"),
        (np.float32([]), np.float32([]), "T >= 1"),
        (np.float32([-1.0]), np.float32([-1.0, -2.0]), "same tokens"),
        (np.float32([-np.inf]), np.float32([-1.0]), "finite"),
    ],
)
def test_what_cannot_be_compared_is_named(sampler: np.ndarray, trainer: np.ndarray, what: str) -> None:
    with pytest.raises(DataError, match=what):
        parity(sampler, trainer)
