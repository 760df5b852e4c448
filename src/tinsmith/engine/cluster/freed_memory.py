"""Return of freed memory to the system, so that a process's size matches its live data.

glibc retains freed blocks below a threshold that grows, up to 32 MiB, with the sizes freed, in one heap for each of
several threads. Between a stage's weights this leaves holes as large as a share of the base, and a server's memory
varies by a third.
"""

from __future__ import annotations

import ctypes
from typing import Final

_MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of glibc's malloc.h; setting it also keeps it from growing."""
_ARENA_MAX: Final = -8
"""M_ARENA_MAX: total number of heaps; each thread that frees memory would leave holes in its own."""
_LEAST: Final = 1 << 18
"""Least bytes of a block with its own pages; a few rows of activations stay in the heap."""
_THP_DISABLE: Final = 41
"""PR_SET_THP_DISABLE of Linux's prctl.h."""


def give_back_freed_memory() -> None:
    """Make this process's C library return its free memory, where it can (glibc). No bit depends on it."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def share_one_heap() -> bool:
    """Make later threads allocate in the existing heaps; return True if that is possible (glibc).

    Unsuitable for a process whose threads often allocate small blocks, as they wait for each other.
    """
    library = ctypes.CDLL(None)
    return hasattr(library, "mallopt") and library.mallopt(_ARENA_MAX, 1) == 1


def keep_giving_back() -> bool:
    """Return free memory now, and every large block from now on when it is freed; return True if possible (glibc).

    Unsuitable for a process that computes all the time: the system must clear its large blocks again. Small blocks stay
    until the next `give_back_freed_memory`, which belongs between pieces of work.
    """
    give_back_freed_memory()
    library = ctypes.CDLL(None)
    return hasattr(library, "mallopt") and library.mallopt(_MMAP_THRESHOLD, _LEAST) == 1


def take_small_pages() -> bool:
    """Use the system's smallest pages for memory as it is touched; return True if that is possible (Linux).

    numpy asks for pages of 2 MB, so that a cache of which each layer has filled a few KB takes 2 MB for each of them.
    Unsuitable for a process with enough memory: large pages are faster to look up.
    """
    library = ctypes.CDLL(None)
    return hasattr(library, "prctl") and library.prctl(_THP_DISABLE, 1, 0, 0, 0) == 0
