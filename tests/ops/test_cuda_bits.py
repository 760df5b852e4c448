"""The CUDA kernels over an emulated grid: the native kernels' bits, whatever the tiles and the order of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from canonical_cases import Inputs, Outputs, assert_same_bits, assert_same_outputs, compute, make_inputs, normal
from emulated import emulated

from tinsmith.ops.cuda.chains import chains_of_length, chains_of_segments
from tinsmith.ops.kernels import Draws, HeadShape
from tinsmith.ops.native import NativeKernels

CASES = {
    "several pages": make_inputs(HeadShape(heads=4, kv_heads=2, head_dim=16), [37, 5, 1, 70], 48, 303),
    "odd widths": make_inputs(HeadShape(heads=3, kv_heads=1, head_dim=80), [9, 130], 97, 70),
    "subnormal": make_inputs(HeadShape(heads=2, kv_heads=1, head_dim=6), [3, 20], 21, 33, scale=1e-20),
}
SMALL, LARGE = 1, 2


def native(inputs: Inputs) -> Outputs:
    return compute(inputs)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("tiles", [SMALL, LARGE])
@pytest.mark.parametrize("inputs", CASES.values(), ids=CASES.keys())
def test_every_kernel_has_the_native_bits(inputs: Inputs, tiles: int, order: int) -> None:
    kernels = emulated(order=order)
    kernels.set_threads(tiles)
    assert_same_outputs(compute(inputs, kernels), native(inputs))


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1030, 70), (6, 2304, 33), (70, 1153, 129), (130, 129, 257)])
@pytest.mark.parametrize("held", [torch.float32, torch.bfloat16])
def test_products_of_many_chains_have_the_native_bits(m: int, k: int, n: int, held: torch.dtype) -> None:
    ours, theirs = emulated(), NativeKernels()
    wide, b, before = normal(1, m, k + 7), normal(2, k, n).to(held), normal(3, m, n + 5)
    a = wide[:, 3 : k + 3]
    for tiles in (SMALL, LARGE):
        ours.set_threads(tiles)
        assert_same_bits(ours.gemm(a, b), theirs.gemm(a, b), f"tiles {tiles}")
        assert_same_bits(ours.gemm(a, b.t().contiguous().t()), theirs.gemm(a, b), f"transposed, tiles {tiles}")
        got, want = before.clone(), before.clone()
        ours.gemm(a, b, into=got[:, 2 : n + 2])
        theirs.gemm(a, b, into=want[:, 2 : n + 2])
        assert_same_bits(got, want, f"into, tiles {tiles}")


def test_gradients_of_many_units_some_of_them_empty_have_the_native_bits() -> None:
    ours, theirs = emulated(), NativeKernels()
    bounds = torch.tensor([0, 0, 3, 3, 3, 40, 41, 77, 77, 90, 131, 131, 200, 200])
    a, b = normal(1, 200, 66), normal(2, 200, 35)
    for tiles in (SMALL, LARGE):
        ours.set_threads(tiles)
        got, want = normal(3, 66, 35), normal(3, 66, 35)
        ours.grad_gemm(a, b, bounds, got)
        theirs.grad_gemm(a, b, bounds, want)
        assert_same_bits(got, want, f"tiles {tiles}")
    ids = torch.from_numpy(np.random.default_rng(1).integers(0, 20, 200))
    got, want = normal(4, 20, 35), normal(4, 20, 35)
    ours.embed_backward(ids, b, bounds, got)
    theirs.embed_backward(ids, b, bounds, want)
    assert_same_bits(got, want, "embedding")
    none = normal(5, 66, 35)
    ours.grad_gemm(a, b, torch.tensor([0, 0, 0]), none)
    assert_same_bits(none, normal(5, 66, 35), "no rows")


def test_draws_of_masked_and_tied_rows_are_the_native_ones() -> None:
    logits = (normal(6, 8, 2100, scale=2) * 2).round() / 2
    logits[:, ::3] = -torch.inf
    logits[:, 1::6] = -0.0
    logits[7, 11] = torch.nan
    count = 40
    rng = np.random.default_rng(3)
    draws = Draws(
        rows=np.arange(count) % 8,
        seeds=np.arange(count, dtype=np.uint64) + (1 << 63),
        samples=np.arange(count),
        positions=3 * np.arange(count),
        temperatures=rng.choice(np.array([0.0, 0.7, 1.0], np.float32), count),
        top_ks=rng.choice(np.array([-1, 0, 5, 1500]), count),
        top_ps=rng.choice(np.array([1.0, 0.9, 0.3, 0.999999]), count),
    )
    for got, want in zip(emulated().choose(logits, draws), NativeKernels().choose(logits, draws), strict=True):
        assert_same_bits(np.nan_to_num(got, nan=7.0), np.nan_to_num(want, nan=7.0))


def test_a_value_that_is_not_finite_is_found() -> None:
    kernels, x = emulated(), normal(1, 3, 700)
    assert kernels.finite([x, x])
    for bad in (torch.inf, -torch.inf, torch.nan):
        y = x.clone()
        y[2, 699] = bad
        assert not kernels.finite([x, y])


def test_a_sum_waits_for_its_neighbour_only() -> None:
    assert chains_of_length(300).tolist() == [[0, 128, 0, 0], [128, 256, 1, 0], [256, 300, 1, 0]]
    assert chains_of_segments([0, 4, 4, 9, 12]).tolist() == [[0, 4, 0, 0], [4, 9, 0, 0], [9, 12, 2, 0]]


CONTROLS = {"contraction": ("-ffp-contract=fast",), "a barrier left out": ("-DTS_TILE_BARRIER()=",)}


@pytest.mark.parametrize("flags", CONTROLS.values(), ids=CONTROLS.keys())
def test_a_kernel_that_is_wrong_on_purpose_is_caught(flags: tuple[str, ...]) -> None:
    kernels = emulated(*flags, order=1)
    kernels.set_threads(LARGE)
    inputs = CASES["several pages"]
    right, wrong = native(inputs), compute(inputs, kernels)
    differ = {name for name, value in right.items() if not np.array_equal(value, wrong[name], equal_nan=True)}
    assert {"weight", "first moment"} <= differ if "contract" in flags[0] else "gemm" in differ


def test_chains_of_64_are_caught() -> None:
    kernels = emulated()
    kernels._chains = lambda k: kernels._segments(torch.tensor([*range(0, k, 64), k]))  # type: ignore[method-assign]
    a, b = normal(1, 30, 512), normal(2, 512, 40)
    differ = int((kernels.gemm(a, b) != NativeKernels().gemm(a, b)).sum())
    assert differ > 30 * 40 // 2
