"""What a worker frees goes back to the system at once, so that its memory is what it holds.

glibc keeps freed blocks below a size that grows, up to 32 MiB, with what is freed. Between a stage's weights that
leaves holes as large as a share of the base.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of glibc's malloc.h; setting it also keeps it from growing."""
_LEAST: Final = 1 << 18
"""Bytes of a block that has pages of its own: those of a few rows of activations stay in the heap."""


def give_back_freed_memory() -> bool:
    """Have this process's C library give back what is free, now and from now on; return whether it can (glibc).

    Small blocks stay until the next call, so a worker calls it between pieces of work. No bit depends on it.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):
        return False
    library.malloc_trim(0)
    return library.mallopt(_MMAP_THRESHOLD, _LEAST) == 1
