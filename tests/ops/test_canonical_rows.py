"""A row's bits do not depend on the batch it is computed in, nor on its place there."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from canonical_cases import assert_same_bits, normal
from torch import Tensor

from tinsmith.ops.extension import module
from tinsmith.ops.kernels import HeadGains, HeadShape, Turn
from tinsmith.ops.native import NativeKernels

BATCHES = (1, 2, 3, 5, 7, 8, 9, 16, 17, 33, 64, 257)
WIDTH = 6 * 24  # of every row: [q | k | v] of 2 + 2 * 2 heads, or [gate | up], or logits

native = module()
k = NativeKernels()

Kernel = Callable[[Tensor], tuple[Tensor, ...]]
"""Rows (M, WIDTH) to tensors whose first axis is M, each row a function of its own row."""


@pytest.fixture(params=[1, 3], ids=["1 thread", "3 threads"], autouse=True)
def _threads(request: pytest.FixtureRequest) -> None:
    native.set_num_threads(request.param)


def assert_rows_do_not_know_their_batch(kernel: Kernel, width: int = WIDTH) -> None:
    pool = normal(1, 257, width)
    pool[::5] *= 30
    for row in (normal(2, 1, width), normal(3, 1, width) * 8):
        alone = kernel(row)
        for size in BATCHES:
            for place in sorted({0, size // 2, size - 1}):
                batch = pool[:size].clone()
                batch[place] = row[0]
                together = kernel(batch)
                for part, own in zip(together, alone, strict=True):
                    assert_same_bits(part[place], own[0], f"row {place} of {size}")


@pytest.mark.parametrize(("depth", "columns"), [(16, 16), (130, 77), (64, 200), (300, 64), (700, 33)])
@pytest.mark.parametrize("transposed", [False, True])
def test_gemm(depth: int, columns: int, transposed: bool) -> None:
    b = normal(5, columns, depth).t() if transposed else normal(5, depth, columns)
    start = normal(6, columns)

    def kernel(x: Tensor) -> tuple[Tensor, ...]:
        into = start.expand(len(x), columns).clone()
        return k.gemm(x, b), k.gemm(x, b, into=into), k.gemm(x.t().contiguous().t(), b)

    assert_rows_do_not_know_their_batch(kernel, depth)


def norm(x: Tensor) -> tuple[Tensor, ...]:
    gain = normal(7, WIDTH)
    return (*k.add_rms_norm(x, None, gain, 1e-6), *k.add_rms_norm(x, x.flip(1).contiguous(), gain, 1e-6))


def norm_backward(x: Tensor) -> tuple[Tensor, ...]:
    gain = normal(7, WIDTH)
    total, y, inv_rms = k.add_rms_norm(x, None, gain, 1e-6)
    dx, xhat = k.rms_norm_backward(total, gain, inv_rms, y, x.flip(1).contiguous(), want_xhat=True)
    assert xhat is not None
    return dx, xhat


SHAPE = HeadShape(heads=2, kv_heads=2, head_dim=24)
GAINS = HeadGains(q=normal(8, 24), k=normal(9, 24), eps=1e-6)
ROPE = k.rope(np.geomspace(1, 1e-3, 12).astype(np.float32), 60)


def positions_of(x: Tensor) -> Tensor:
    """A position that goes with the row, wherever it stands."""
    return (x[:, 0].abs() * 10).long().clamp(max=59)


def rotate(x: Tensor) -> tuple[Tensor, ...]:
    return tuple(k.rotate(x, Turn(SHAPE, positions_of(x), ROPE, gains)) for gains in (None, GAINS))


def rotate_backward(x: Tensor) -> tuple[Tensor, ...]:
    dy, at = x.flip(1).contiguous(), positions_of(x)
    plain, _ = k.rotate_backward(x, dy, Turn(SHAPE, at, ROPE, None), want_gains=False)
    dx, sums = k.rotate_backward(x, dy, Turn(SHAPE, at, ROPE, GAINS), want_gains=True)
    return plain, dx, *(part.view(len(x), -1) for part in sums)


def gate(x: Tensor) -> tuple[Tensor, ...]:
    return k.silu_gate(x), k.silu_gate_backward(x, x[:, 5 : 5 + WIDTH // 2].contiguous())


def targets_of(x: Tensor) -> Tensor:
    return (x[:, 0].abs() * 10).int().clamp(max=WIDTH - 1)


def logprobs(x: Tensor) -> tuple[Tensor, ...]:
    stats = k.row_stats(x, 1.0)
    return *stats, *k.row_stats(x, 0.7), k.gather_logprobs(x, targets_of(x), stats)


def logprob_backward(x: Tensor) -> tuple[Tensor, ...]:
    reads, stats = torch.arange(len(x) + 1), k.row_stats(x, 1.0)
    grads = x[:, 1].clone()
    return (k.logprob_backward(x.clone(), reads, targets_of(x), grads, stats),)


def scale_bias(x: Tensor) -> tuple[Tensor, ...]:
    y = x.clone()
    k.scale_bias(y, normal(10, WIDTH), normal(11, WIDTH))
    return (y,)


ROW_KERNELS = (norm, norm_backward, rotate, rotate_backward, gate, logprobs, logprob_backward, scale_bias)


@pytest.mark.parametrize("kernel", ROW_KERNELS, ids=lambda kernel: kernel.__name__)
def test_row_kernels(kernel: Kernel) -> None:
    assert_rows_do_not_know_their_batch(kernel)


def test_a_selected_rows_gradient_does_not_know_which_others_are_selected() -> None:
    logits, targets = normal(1, 90, WIDTH), torch.arange(90, dtype=torch.int32)
    grads, stats = normal(2, 90), k.row_stats(logits, 1.0)
    every = k.logprob_backward(logits.clone(), torch.arange(91), targets, grads, stats)
    some = torch.tensor([3, 17, 18, 89])
    few = k.logprob_backward(
        logits[some], torch.arange(5), targets[some], grads[some], (stats[0][some], stats[1][some])
    )
    assert_same_bits(few, every[some])


def test_gradients_of_one_row_are_added_in_their_order() -> None:
    logits = normal(1, 1, WIDTH)
    targets = torch.tensor([5, 2, 5], dtype=torch.int32)
    grads = torch.tensor([1e8, 0.3, -1e8])
    stats = k.row_stats(logits, 1.0)
    got = k.logprob_backward(logits.clone(), torch.tensor([0, 3]), targets, grads, stats)
    total = (grads[0] + grads[1]) + grads[2]
    alone = k.logprob_backward(logits.clone(), torch.arange(2), targets[:1], total[None].contiguous(), stats)
    alone[0, 5] = alone[0, 5] - total  # what the softmax alone takes
    expected = alone.clone()
    for target, grad in zip(targets.tolist(), grads, strict=True):
        expected[0, target] = expected[0, target] + grad
    others = torch.tensor([i not in (2, 5) for i in range(WIDTH)])
    assert_same_bits(got[0, others], expected[0, others])
    assert got[0, 2] == expected[0, 2]
