"""Return of freed memory to the system, so that a process's memory is what it holds.

glibc keeps freed blocks below a size that grows, up to 32 MiB, with what is freed, in a heap for each of some threads.
Between a stage's weights that leaves holes as large as a share of the base, and a server's memory wavers by a third.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of glibc's malloc.h; setting it also keeps it from growing."""
_ARENA_MAX: Final = -8
"""M_ARENA_MAX: heaps in all, where each thread that frees would leave holes in its own."""
_LEAST: Final = 1 << 18
"""Bytes of a block that has pages of its own: those of a few rows of activations stay in the heap."""
_THP_DISABLE: Final = 41
"""PR_SET_THP_DISABLE of Linux's prctl.h."""


def give_back_freed_memory() -> None:
    """Have this process's C library give back what is free now, where it can (glibc). No bit depends on it."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def share_one_heap() -> bool:
    """Let the threads that are to come allocate in the heaps that are there; return whether that can be (glibc).

    Not for a process whose threads allocate small blocks all the time, as they wait for each other.
    """
    library = ctypes.CDLL(None)
    return hasattr(library, "mallopt") and library.mallopt(_ARENA_MAX, 1) == 1


def keep_giving_back() -> bool:
    """Give back what is free, and from now on every large block once it is freed; return whether that can be (glibc).

    Not for a process that computes all the time: the system clears its large blocks anew. Small blocks stay until the
    next `give_back_freed_memory`, which belongs between pieces of work.
    """
    give_back_freed_memory()
    library = ctypes.CDLL(None)
    return hasattr(library, "mallopt") and library.mallopt(_MMAP_THRESHOLD, _LEAST) == 1


def take_small_pages() -> bool:
    """Have memory come in the system's smallest pages, as it is touched; return whether that can be (Linux).

    numpy asks for pages of 2 MB, so that a cache of which each layer has filled a few KB takes 2 MB for each of them.
    Not for a process that has memory enough: large pages cost less to look up.
    """
    library = ctypes.CDLL(None)
    return hasattr(library, "prctl") and library.prctl(_THP_DISABLE, 1, 0, 0, 0) == 0
