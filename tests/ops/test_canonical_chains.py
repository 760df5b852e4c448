"""Sums are the documented chains, and a gradient is its units' chains added by the tree over their index."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from canonical_cases import Float32s, assert_same_bits, fma32, lane_sum, normal, product, product_chain
from torch import Tensor

from tinsmith.ops.native import NativeKernels

k = NativeKernels()

UNITS = [3, 1, 0, 17, 40, 2, 0, 30, 5, 0, 9]
"""Rows per unit."""
BLOCKS = [[8, 2, 1], [1] * 11, [2, 2, 4, 1, 1, 1], [4, 4, 2, 1], [1, 1, 2, 4, 2, 1]]
"""Units per micro-batch: whole nodes of the tree."""


def rounded_once(exact: Fraction) -> np.float32:
    """The nearest float32, ties to even, in the normal range."""
    if exact == 0:
        return np.float32(0)
    exponent = abs(exact).numerator.bit_length() - abs(exact).denominator.bit_length()
    exponent -= abs(exact) < Fraction(2) ** exponent
    unit = Fraction(2) ** (exponent - 23)
    return np.float32(float(round(exact / unit) * unit))


def test_the_emulated_fma_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4000)).astype(np.float32)
    c = (rng.standard_normal(4000) * 10.0 ** rng.integers(-9, 9, 4000)).astype(np.float32)
    # Cancellation to the last bits; then sums half-way between two floats but for 2**-70.
    c[:1000] = -(a[:1000] * b[:1000])
    tail = rng.choice([-1, 1], 1000) * 2.0**-23
    a[1000:2000], b[1000:2000] = 2.0**-24 * (1 + tail), 1 - tail
    c[1000:2000] = rng.choice([-1, 1], 1000) * (1 + rng.integers(0, 4, 1000) * 2.0**-23)
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    expected = np.array([rounded_once(value) for value in exact])
    assert_same_bits(fma32(a, b, c), expected)
    in_fp64 = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (in_fp64 != expected).any(), "no case where rounding twice differs"


@pytest.mark.parametrize(
    ("m", "depth", "n"), [(1, 1, 1), (1, 70, 400), (3, 33, 7), (6, 128, 64), (50, 129, 85), (4, 513, 200), (7, 1700, 9)]
)
def test_gemm_is_a_tree_of_chains_of_fused_steps(m: int, depth: int, n: int) -> None:
    a, b, start = normal(1, m, depth), normal(2, depth, n), normal(3, m, n)
    expected = product(a.numpy(), b.numpy())
    transposed = b.t().contiguous().t()
    assert_same_bits(k.gemm(a, b), expected)
    assert_same_bits(k.gemm(a, transposed), expected)
    assert_same_bits(k.gemm(a, b, into=start.clone()), start.numpy() + expected)
    assert_same_bits(k.gemm(a, transposed, into=start.clone()), start.numpy() + expected)


def test_rows_and_columns_may_be_cut_anywhere() -> None:
    a, b = normal(1, 61, 300), normal(2, 300, 700)
    whole = k.gemm(a, b)
    for rows, columns in ((1, 384), (2, 1), (4, 97), (48, 699)):
        assert_same_bits(k.gemm(a[:rows], b), whole[:rows])
        assert_same_bits(k.gemm(a[rows:], b[:, columns:]), whole[rows:, columns:])


def test_a_gradient_does_not_know_whether_its_rows_were_packed() -> None:
    a, b = normal(1, 5000, 61), normal(2, 5000, 130)
    segments = torch.tensor([0, 700, 700, 701, 5000])
    for rows in (a, a[:, ::2]):
        whole = torch.zeros(rows.shape[1], 130)
        k.grad_gemm(rows, b, segments, whole)
        for begin in range(0, 130, 40):
            few = torch.zeros(rows.shape[1], min(40, 130 - begin))
            k.grad_gemm(rows, b[:, begin : begin + 40], segments, few)
            assert_same_bits(few, whole[:, begin : begin + 40])


@pytest.mark.parametrize("width", [5, 16, 100])
def test_the_norm_sums_squares_in_sixteen_lanes(width: int) -> None:
    x = normal(4, 7, width).numpy()
    squares = np.zeros((7, 16), np.float32)
    for at in range(0, width, 16):
        block = x[:, at : at + 16]
        lanes = slice(0, block.shape[1])
        squares[:, lanes] = fma32(block, block, squares[:, lanes])
    mean = lane_sum(squares) / np.float32(width) + np.float32(1e-6)
    inv_rms = np.float32(1) / np.sqrt(mean)
    gain = normal(5, width)
    _, y, got = k.add_rms_norm(torch.from_numpy(x), None, gain, 1e-6)
    assert_same_bits(got, inv_rms)
    assert_same_bits(y, x * inv_rms[:, None] * gain.numpy())


def gradients(a: Tensor, b: Tensor, ids: Tensor, lengths: list[int], into: list[Tensor]) -> None:
    """Every gradient that is summed over rows, added into the buffers."""
    segments = torch.tensor(np.cumsum([0, *lengths]))
    k.grad_gemm(a, b, segments, into[0])
    k.column_chain(a, None, segments, into[1])
    k.column_chain(b, b, segments, into[2])
    k.embed_backward(ids, a, segments, into[3])


def buffers() -> list[Tensor]:
    return [normal(6, 37, 50), normal(7, 37), normal(8, 50), normal(9, 11, 37)]


def operands() -> tuple[Tensor, Tensor, Tensor]:
    total = sum(UNITS)
    ids = torch.from_numpy(np.random.default_rng(3).integers(0, 11, total))
    return normal(1, total, 37), normal(2, total, 50), ids


def chains(a: Float32s, b: Float32s, ids: np.ndarray) -> list[Float32s]:
    """One unit's chains."""
    ones = np.ones((1, len(a)), np.float32)
    squares = np.zeros(b.shape[1], np.float32)
    for row in b:
        squares = fma32(row, row, squares)
    embedded = np.zeros((11, a.shape[1]), np.float32)
    for token, row in zip(ids, a, strict=True):
        embedded[token] = embedded[token] + row
    return [product_chain(a.T, b), product_chain(ones, a)[0], squares, embedded]


def tree_sum(parts: list[list[Float32s]]) -> list[Float32s]:
    """Units 2i and 2i + 1 first, then the pairs, and so on."""
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [[x + y for x, y in zip(*pair, strict=True)] if len(pair) == 2 else pair[0] for pair in pairs]
    return parts[0]


def unit_parts() -> list[tuple[Tensor, Tensor, Tensor]]:
    a, b, ids = operands()
    return list(zip(a.split(UNITS), b.split(UNITS), ids.split(UNITS), strict=True))


def test_gradients_are_the_units_chains_added_by_the_tree_over_their_index() -> None:
    a, b, ids = operands()
    got = buffers()
    gradients(a, b, ids, UNITS, got)
    expected = tree_sum([chains(x.numpy(), y.numpy(), z.numpy()) for x, y, z in unit_parts()])
    for one, other, before in zip(got, expected, buffers(), strict=True):
        assert_same_bits(one, before.numpy() + other)


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_gradients_do_not_depend_on_the_micro_batches(blocks: list[int]) -> None:
    a, b, ids = operands()
    expected = [torch.zeros_like(buffer) for buffer in buffers()]
    gradients(a, b, ids, UNITS, expected)
    partials: list[tuple[int, list[Tensor]]] = []
    unit = row = 0
    for count in blocks:
        lengths = UNITS[unit : unit + count]
        part = slice(row, row + sum(lengths))
        into = [torch.zeros_like(buffer) for buffer in buffers()]
        gradients(a[part], b[part], ids[part], lengths, into)
        partials.append((unit, into))
        unit, row = unit + count, part.stop
    assert row == len(a)
    size = 1
    while len(partials) > 1:  # neighbours within an aligned block of twice the size are added
        size *= 2
        joined: dict[int, list[Tensor]] = {}
        for first, grads in partials:
            block = first // size
            if block in joined:
                joined[block] = [x + y for x, y in zip(joined[block], grads, strict=True)]
            else:
                joined[block] = grads
        partials = [(block * size, grads) for block, grads in joined.items()]
    for one, other in zip(partials[0][1], expected, strict=True):
        assert_same_bits(one, other)


def test_the_order_of_units_is_an_order_of_sums() -> None:
    """The promise is about the caller's order: another order may give other bits."""
    a, b, ids = operands()
    forth, back = buffers(), buffers()
    gradients(a, b, ids, UNITS, forth)
    order = torch.cat([part for part in reversed(torch.arange(len(a)).split(UNITS))])
    gradients(a[order], b[order], ids[order], UNITS[::-1], back)
    assert not torch.equal(forth[0], back[0])
    torch.testing.assert_close(forth, back)


def test_a_zero_row_adds_nothing_to_a_chain() -> None:
    a, b, _ = operands()
    kept = torch.from_numpy(np.random.default_rng(4).random(len(a)) < 0.4)
    masked = torch.where(kept[:, None], b, 0.0)
    every, some = buffers()[0], buffers()[0]
    segments = torch.tensor(np.cumsum([0, *UNITS]))
    k.grad_gemm(a, masked, segments, every)
    fewer = torch.cat([torch.zeros(1, dtype=torch.int64), kept.cumsum(0)])[segments]
    k.grad_gemm(a[kept], b[kept], fewer, some)
    assert_same_bits(some, every)
