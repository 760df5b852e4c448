"""Pages of keys and values, sixteen positions each, and the page table of each sequence."""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

_LARGE = 1 << 22
"""Bytes from which an allocation is mapped separately, and returned to the system when freed."""
PAGE = 16
"""Keys per page of the KV cache: one logical vector of the kernels."""


@dataclass(slots=True)
class Pages:
    """Keys [pages, kv_heads, d, 16] and values [pages, kv_heads, 16, d padded to 16] of one layer.

    Values must be finite everywhere (a masked key weighs exactly zero, and 0 * inf is not zero).
    """

    keys: Tensor
    values: Tensor

    @staticmethod
    def allocate(num_pages: int, kv_heads: int, head_dim: int, device: torch.device) -> Pages:
        """Allocate zeroed pages."""
        padded = (head_dim + PAGE - 1) // PAGE * PAGE
        return Pages(
            keys=_lazy_zeros((num_pages, kv_heads, head_dim, PAGE), device),
            values=_lazy_zeros((num_pages, kv_heads, PAGE, padded), device),
        )


def _lazy_zeros(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Allocate zeros; on the host, the system provides each memory page when it is touched.

    torch would write all of it, and so would numpy when it reuses freed memory.
    """
    if device.type != "cpu":
        return torch.zeros(shape, device=device)
    size = 4 * math.prod(shape)
    if size < _LARGE:
        return torch.from_numpy(np.zeros(shape, np.float32))
    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.float32).view(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of each sequence, and their positions in it."""

    row_begin: Tensor
    """(n + 1,) int64: sequence s has rows row_begin[s] .. row_begin[s + 1]."""
    first_pos: Tensor
    """(n,) int64: position of each sequence's first row; earlier positions are already in its pages."""
    positions: Tensor
    """(rows,) int64."""
    table: Tensor
    """(n, pages) int32: page numbers, by position // 16."""
