"""Matrices in their published form, bf16 to 4 bits, widened by the native kernels wherever they are read.

Values follow the file format's own rule, bit for bit, so that a product equals that of the fp32 matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.ops.extension import native
from tinsmith.ops.nf4 import DYNAMIC_LEVELS, Nf4Tensor

if TYPE_CHECKING:
    from tinsmith import _native


NF4: Final = "NF4"
"""NF4 is not a type of files: a base is quantised to it when it is opened."""


@cache
def packed_types() -> Mapping[str, int]:
    """Return the block size of each type that can be held in published form, by GGUF's names; empty without kernels."""
    types = [] if native is None else native.held_types()  # pyright: ignore[reportUnnecessaryComparison]
    return {name: block for name, block, _ in types if name != NF4}


class Packed:
    """Published matrix (out, in) in the kernels' layout, with the bits of its file."""

    __slots__ = ("held", "shape", "type")

    def __init__(self, type: str, stored: NDArray[np.generic], shape: tuple[int, int]) -> None:
        """Pack rows of whole blocks in the file's form."""
        self.held: _native.Packed = native.Packed(type, stored.reshape(-1).view(np.uint8), *shape)
        self.shape, self.type = shape, type

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.held.nbytes

    def rows(self, begin: int, end: int) -> Tensor:
        """Return rows begin .. end as fp32."""
        out = torch.empty(end - begin, self.shape[1])
        self.held.widen(begin, out.numpy())
        return out

    def columns(self, begin: int, end: int) -> Tensor:
        """Return rows begin .. end as fp32, transposed: (in, end - begin); `begin` is a multiple of 16."""
        out = torch.empty(self.shape[1], end - begin)
        self.held.widen_turned(begin, out.numpy())
        return out

    def widened(self) -> Tensor:
        """Return the whole matrix as fp32, (out, in)."""
        return self.rows(0, self.shape[0])

    def take(self, ids: Tensor) -> Tensor:
        """Return the rows of these numbers as fp32."""
        out = torch.empty(len(ids), self.shape[1])
        self.held.take(ids.numpy(), out.numpy())
        return out

    @staticmethod
    def product(x: Tensor, parts: Sequence[Packed]) -> Tensor:
        """Compute the product of rows x with the transposes of matrices that read the same rows, side by side."""
        y = torch.empty(len(x), sum(part.shape[0] for part in parts))
        native.held_product(x.detach().numpy(), [part.held for part in parts], y.numpy())
        return y

    @staticmethod
    def product_turned(dy: Tensor, parts: Sequence[Packed]) -> Tensor:
        """Compute the product of rows dy with the matrices as published, stacked below one another."""
        dx = torch.empty(len(dy), parts[0].shape[1])
        native.held_product_turned(dy.detach().numpy(), [part.held for part in parts], dx.numpy())
        return dx


def packable(type: str, shape: Collection[int]) -> bool:
    """True if a tensor of this type and shape is a matrix that can be held in published form."""
    return len(shape) == 2 and type in packed_types()


def packed_nf4(weight: Nf4Tensor) -> Packed:
    """Return a quantised matrix whose rows are whole blocks, with the bits of `nf4.dequantise`."""
    packed = Packed(NF4, weight.codes, weight.shape)
    packed.held.scale(weight.absmax_codes, weight.absmax_scales, float(weight.offset), DYNAMIC_LEVELS)
    return packed
