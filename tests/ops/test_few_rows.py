"""Products of a few rows take wider strips than others: the same bits as a row's in a large product, on every ISA."""

import pytest
import torch

from tinsmith.ops.extension import configure, module
from tinsmith.ops.native import NativeKernels
from tinsmith.types.arithmetic import Isa

WIDTHS = (96, 127, 384, 400, 1000)
"""Below one wide strip, with and without columns left over."""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", range(1, 8))
def test_rows_of_a_few_are_rows_of_many(kernels: NativeKernels, rows: int, width: int) -> None:
    draw = torch.Generator().manual_seed(rows * width)
    a = torch.randn(64, 600, generator=draw)
    b = torch.randn(600, width, generator=draw)
    c = torch.randn(64, width, generator=draw)
    assert torch.equal(kernels.gemm(a[:rows], b), kernels.gemm(a, b)[:rows])
    chained = kernels.gemm(a, b, into=c.clone())[:rows]
    assert torch.equal(kernels.gemm(a[:rows], b, into=c[:rows].clone()), chained)


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("rows", [43, 130])
@pytest.mark.parametrize("width", [16, 190, 576])
def test_many_rows_are_shared_out_in_runs_of_tiles_that_cut_strips(threads: int, rows: int, width: int) -> None:
    kernels, draw = NativeKernels(), torch.Generator().manual_seed(rows * width)
    a, b = torch.randn(rows, 2600, generator=draw), torch.randn(2600, width, generator=draw)
    products: list[torch.Tensor] = []
    for count in (1, threads):
        kernels.set_threads(count)
        products += [kernels.gemm(a, b), kernels.gemm(a, b.t().contiguous().t())]
    assert all(torch.equal(product, products[0]) for product in products)


@pytest.mark.parametrize("rows", range(1, 6))
def test_few_rows_have_one_set_of_bits_on_every_isa(rows: int) -> None:
    kernels = NativeKernels()
    draw = torch.Generator().manual_seed(rows)
    a, b = torch.randn(rows, 70, generator=draw), torch.randn(70, 1000, generator=draw)
    products: list[torch.Tensor] = []
    for isa in module().supported_isas():
        configure(threads=1, isa=Isa(isa))
        products.append(kernels.gemm(a, b))
    assert all(torch.equal(product, products[0]) for product in products)
