"""Matrices held as they were published: products and rows with the bits of the fp32 matrix, every type on every ISA.

The fp32 matrix is what the `gguf` library makes of the same bytes.
"""

from itertools import pairwise

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from published_blocks import random_blocks

from tinsmith.ops import nf4
from tinsmith.ops.extension import configure, module
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.packed import NF4, Packed, packed_nf4, packed_types
from tinsmith.types.arithmetic import Isa

TYPES = sorted((*packed_types(), NF4))
OUTS = (1, 16, 17, 64, 70, 130)
"""Columns of a product: less than a tile of 16, a panel of 64 and more, with and without some left over."""
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 13, 49)
"""Rows: as few as are widened while they are read, as many as a tile has, and more."""


def pair(type: str, out: int, inner: int, seed: int = 0) -> tuple[Packed, torch.Tensor]:
    """A packed matrix, and the same as fp32."""
    if type == NF4:
        weight = nf4.quantise(np.random.default_rng(seed).normal(size=(out, inner)).astype(np.float32))
        return packed_nf4(weight), torch.from_numpy(nf4.dequantise(weight))
    rows = random_blocks(type, out, inner, seed)
    values = gguf.dequantize(rows, GGMLQuantizationType[type]).astype(np.float32).reshape(out, inner)
    return Packed(type, rows, (out, inner)), torch.from_numpy(values)


def inners(type: str) -> tuple[int, ...]:
    """Lengths of a row: a block and several; where a block is one weight, any."""
    block = {**packed_types(), NF4: nf4.BLOCK}[type]
    return (1, 7, 130, 200) if block == 1 else (block, 3 * block)


def unequal(a: torch.Tensor, b: torch.Tensor) -> int:
    """Number of elements with other bits, signs of zeros included."""
    assert a.shape == b.shape
    return int((a.contiguous().view(torch.int32) != b.contiguous().view(torch.int32)).sum())


@pytest.fixture(params=[(isa, threads) for isa in module().supported_isas() for threads in (1, 2)])
def kernels(request: pytest.FixtureRequest) -> NativeKernels:
    native = NativeKernels()
    configure(threads=request.param[1], isa=Isa(request.param[0]))
    return native


@pytest.mark.parametrize("type", TYPES)
def test_values_are_those_of_the_files_own_rule(kernels: NativeKernels, type: str) -> None:
    del kernels
    for out in OUTS:
        for inner in inners(type):
            packed, values = pair(type, out, inner, seed=out)
            assert unequal(packed.widened(), values) == 0
            ids = torch.tensor([out - 1, 0, out // 2, 0])
            assert unequal(packed.take(ids), values[ids]) == 0
            assert unequal(packed.rows(out // 3, out), values[out // 3 :]) == 0
            for begin in range(0, out, 48):
                assert unequal(packed.columns(begin, out), values[begin:].t()) == 0


@pytest.mark.parametrize("type", TYPES)
def test_a_product_has_the_bits_of_one_with_fp32(kernels: NativeKernels, type: str) -> None:
    draw = torch.Generator().manual_seed(5)
    wrong = 0
    for out in OUTS:
        for inner in inners(type):
            packed, values = pair(type, out, inner, seed=out)
            x = torch.randn(max(ROWS), inner, generator=draw)
            whole = kernels.gemm(x, values.t().contiguous())
            for count in ROWS:
                wrong += unequal(Packed.product(x[:count], [packed]), whole[:count])
    assert wrong == 0


@pytest.mark.parametrize("type", TYPES)
def test_a_product_with_the_transpose_has_the_bits_of_one_with_fp32(kernels: NativeKernels, type: str) -> None:
    """Of several matrices below one another, as the gradient of what q, k and v read."""
    draw = torch.Generator().manual_seed(6)
    wrong = 0
    for inner in inners(type):
        for outs in ((130,), (1,), (64, 16, 16), (70, 3, 17)):
            pairs = [pair(type, out, inner, seed=i) for i, out in enumerate(outs)]
            below = torch.cat([values for _, values in pairs])
            dy = torch.randn(60, sum(outs), generator=draw)
            for count in (1, 6, 60):
                turned = Packed.product_turned(dy[:count], [packed for packed, _ in pairs])
                wrong += unequal(turned, kernels.gemm(dy[:count], below))
    assert wrong == 0


def test_matrices_of_several_types_are_computed_side_by_side(kernels: NativeKernels) -> None:
    outs = (64, 16, 48)
    pairs = [pair(type, out, 512, seed=out) for type, out in zip(("Q4_K", "Q4_K", "Q6_K"), outs, strict=True)]
    x = torch.randn(5, 512, generator=torch.Generator().manual_seed(1))
    y = Packed.product(x, [packed for packed, _ in pairs])
    cuts = np.cumsum((0, *outs)).tolist()
    for (begin, end), (_, values) in zip(pairwise(cuts), pairs, strict=True):
        assert unequal(y[:, begin:end], kernels.gemm(x, values.t().contiguous())) == 0


@pytest.mark.parametrize("type", sorted(packed_types()))
def test_a_packed_matrix_takes_the_bytes_of_its_file(type: str) -> None:
    rows = random_blocks(type, 128, 512, 0)
    # Of a K type the eight scales and shifts of 6 bits each take a byte.
    assert rows.nbytes <= Packed(type, rows, (128, 512)).nbytes <= 1.03 * rows.nbytes


def test_what_is_no_row_of_whole_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes"):
        Packed("Q4_0", np.zeros((2, 18), np.uint8), (2, 33))
    with pytest.raises(ValueError, match="type"):
        Packed("Q3_K", np.zeros((2, 18), np.uint8), (2, 32))
