"""Half a cosine, from 1 down to 0, with the same bits everywhere."""

import math

import numpy as np
import pytest

from tinsmith.ops.exact import raised_cosine


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
