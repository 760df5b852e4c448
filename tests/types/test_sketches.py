"""Marks of tensors: what they estimate, what changes them, and what must not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tinsmith.types.sketches import SKETCH, digest, distance, signs, sketch


def drawn(seed: int, size: int, scale: float = 1.0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(size) * scale).astype(np.float32)


@pytest.mark.parametrize("size", [1, 7, 16, 17, 4096])
def test_projections_have_a_sign_of_every_element(size: int) -> None:
    places = signs("w", size)
    assert places.shape == (size,)
    assert places.max() < 2 * SKETCH
    for i in {0, size // 2, size - 1}:
        unit = np.zeros(size, np.float32)
        unit[i] = 3.0
        projections = sketch(unit, places)
        assert projections is not None
        assert {abs(value) for value in projections} == {3.0}


def test_the_distance_estimates_the_norm_of_the_difference() -> None:
    ratios: list[float] = []
    for seed in range(60):
        a = drawn(seed, 3000)
        b = a + drawn(1000 + seed, 3000, 1e-3)
        places = signs(f"layer {seed}", 3000)
        first, second = sketch(a, places), sketch(b, places)
        assert first is not None
        assert second is not None
        truth = float(np.linalg.norm(b.astype(np.float64) - a))
        ratios.append(distance(first, second) / truth)
    assert 0.93 < float(np.mean(ratios)) < 1.05
    assert 0.15 < float(np.std(ratios)) < 0.35


def test_one_changed_bit_is_seen_with_its_size() -> None:
    a = drawn(1, 5000)
    b = a.copy()
    b[777] = np.nextafter(b[777], np.float32(9))
    places = signs("w", len(a))
    first, second = sketch(a, places), sketch(b, places)
    assert first is not None
    assert second is not None
    assert distance(first, second) == pytest.approx(abs(float(b[777]) - float(a[777])), rel=1e-3)
    assert digest(a) != digest(b)
    assert distance(first, first) == 0.0


@pytest.mark.parametrize(("scale", "largest"), [(1e-20, 1e10), (1.0, 1.0)])
def test_the_sum_has_no_order(scale: float, largest: float) -> None:
    a = drawn(2, 600_000, scale)  # more than is added at once
    a[5] = largest
    places = signs("w", len(a))
    whole = sketch(a, places)
    order = np.random.default_rng(0).permutation(len(a))
    assert sketch(a[order], places[order]) == whole


def test_a_sketch_is_a_pinned_number() -> None:
    a = (np.arange(-20, 20) / 8).astype(np.float32)
    assert sketch(a, signs("model.layers.0.mlp.up_proj.lora_A.weight", 40)) == PINNED


PINNED = (-8.0, 5.75, -12.0, 10.25, -13.75, -0.5, -13.25, 3.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_sketch(bad: float) -> None:
    a = drawn(3, 50)
    a[20] = bad
    assert sketch(a, signs("w", 50)) is None


def test_zeros_and_nothing_have_a_sketch() -> None:
    assert sketch(np.zeros(9, np.float32), signs("w", 9)) == (0.0,) * 8
    assert sketch(np.zeros(0, np.float32), signs("w", 0)) == (0.0,) * 8
