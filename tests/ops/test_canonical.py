"""The native kernels' bits do not depend on threads, instruction set or the caller's float mode."""

import numpy as np
import pytest
import torch
from canonical_cases import Inputs, assert_same_outputs, compute, make_inputs

from tinsmith.ops.extension import module
from tinsmith.ops.kernels import HeadShape
from tinsmith.types.arithmetic import Isa

native = module()

SMALL = {
    "odd": make_inputs(HeadShape(heads=3, kv_heads=1, head_dim=18), [1, 20, 3, 17], 37, 53),
    "even": make_inputs(HeadShape(heads=4, kv_heads=2, head_dim=16), [16, 33], 48, 64),
    "head_dim=80": make_inputs(HeadShape(heads=2, kv_heads=2, head_dim=80), [2, 49], 20, 200),
}
LARGE = make_inputs(HeadShape(heads=8, kv_heads=2, head_dim=64), [200, 1, 119], 800, 1003)
"""Enough work in every kernel to be split over threads."""
SMALLEST_NORMAL = np.finfo(np.float32).tiny


def test_the_instruction_sets_of_this_cpu_have_known_names() -> None:
    assert native.supported_isas()[0] == Isa.SCALAR
    assert set(native.supported_isas()) <= set(Isa)


@pytest.mark.parametrize("inputs", SMALL.values(), ids=SMALL.keys())
def test_every_instruction_set_gives_the_same_bits(inputs: Inputs) -> None:
    native.use_isa(Isa.SCALAR)
    expected = compute(inputs)
    for isa in native.supported_isas()[1:]:
        native.use_isa(isa)
        assert native.isa() == isa
        assert_same_outputs(compute(inputs), expected)


def test_every_number_of_threads_gives_the_same_bits() -> None:
    native.set_num_threads(1)
    expected = compute(LARGE)
    for threads in (2, 3):
        native.set_num_threads(threads)
        assert_same_outputs(compute(LARGE), expected)


@pytest.mark.parametrize("isa", native.supported_isas())
@pytest.mark.parametrize("scale", [1.1e-20, 3e-39], ids=["denormal products", "denormal operands"])
def test_a_caller_that_flushes_denormals_gets_the_same_bits(isa: str, scale: float) -> None:
    native.use_isa(isa)
    shape = HeadShape(heads=2, kv_heads=1, head_dim=16)
    inputs = make_inputs(shape, [5, 18], 24, 40, scale=scale)
    expected = compute(inputs)
    assert expected["sum of squares"] > 0
    for name in ("gemm", "gate", "column_chain of products", "second moment"):
        magnitude = np.abs(np.asarray(expected[name]))
        assert scale < 1e-38 or magnitude[magnitude > 0].min() < SMALLEST_NORMAL, name
    assert torch.set_flush_denormal(True)
    try:
        flushed = compute(inputs)
    finally:
        torch.set_flush_denormal(False)
    assert_same_outputs(flushed, expected)


def test_worker_threads_keep_denormals_too() -> None:
    a = torch.full((257, 128), 0.5e-20)
    b = torch.full((128, 200), 1.0e-20)
    native.set_num_threads(3)
    expected = compute_gemm(a, b)
    torch.set_flush_denormal(True)
    try:
        flushed = compute_gemm(a, b)
    finally:
        torch.set_flush_denormal(False)
    assert np.array_equal(flushed.view(np.int32), expected.view(np.int32))
    assert 0 < expected.max() < SMALLEST_NORMAL


def compute_gemm(a: torch.Tensor, b: torch.Tensor) -> np.ndarray:
    c = np.empty((a.shape[0], b.shape[1]), np.float32)
    native.gemm(a.numpy(), b.numpy(), c)
    return c
