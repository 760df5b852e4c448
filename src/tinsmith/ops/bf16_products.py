"""`fast` with the operands of every product rounded to bf16, as on most accelerators; everything else in fp32."""

from __future__ import annotations

import torch
from torch import Tensor

from tinsmith.ops.stock import StockKernels


class Bf16Products(StockKernels):
    """Products of operands rounded to bf16."""

    def gemm(self, a: Tensor, b: Tensor, *, into: Tensor | None = None) -> Tensor:
        """`mm` in bf16."""
        product = torch.mm(a.bfloat16(), b.bfloat16()).float()
        return product if into is None else into.add_(product)
