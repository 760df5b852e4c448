"""A product with a transposed matrix is turned block by block while it is packed: the bits of one with a copy of it."""

import pytest
import torch

from tinsmith.ops.extension import configure, module
from tinsmith.ops.native import NativeKernels
from tinsmith.types.arithmetic import Isa


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
