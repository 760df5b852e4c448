"""DoRA's square root is the correctly rounded one, which no library's fast root is on every machine."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from tinsmith.ops.linear import rounded_root


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
