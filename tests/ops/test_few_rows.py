"""Products of a few rows and with transposed matrices: the bits of a large product, and of one with a copy."""

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


@pytest.mark.parametrize("isa", module().supported_isas())
@pytest.mark.parametrize("rows", [1, 5, 48, 70])
@pytest.mark.parametrize(("inner", "width"), [(16, 16), (33, 50), (8, 130), (200, 15), (129, 64)])
def test_transposed_and_copied_agree(isa: str, rows: int, inner: int, width: int) -> None:
    kernels = NativeKernels()
    draw = torch.Generator().manual_seed(inner * width)
    a = torch.randn(rows, inner, generator=draw)
    held = torch.randn(width, inner + 3, generator=draw)
    configure(threads=1, isa=Isa(isa))
    for b in (held[:, :inner].t(), held.t()[1 : inner + 1], held[:, : 2 * (inner // 2)].t()):
        part = a[:, : b.shape[0]]
        assert torch.equal(kernels.gemm(part, b), kernels.gemm(part, b.contiguous()))
