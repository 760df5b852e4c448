"""What is freed between what is held goes back to the system; in a process of its own, whose heap is then another."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.whole, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]

GROWTH = """
from pathlib import Path
from tinsmith.engine.cluster.freed_memory import give_back_freed_memory, keep_giving_back

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

can = keep_giving_back()
before = resident()
blocks = [b"1" * (100 << 10) for _ in range(400)]
del blocks[:-1]
give_back_freed_memory()
print(resident() - before if can else 0)
"""


def test_what_is_freed_between_what_is_held_goes_back() -> None:
    told = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    assert int(told.stdout) < 10 << 20


HEAPS = """
import ctypes, os, tempfile, threading
from tinsmith.engine.cluster.freed_memory import share_one_heap

def heaps():
    library = ctypes.CDLL(None)
    library.fopen.restype = ctypes.c_void_p
    with tempfile.NamedTemporaryFile() as told:
        stream = ctypes.c_void_p(library.fopen(told.name.encode(), b"w"))
        library.malloc_info(0, stream)
        library.fclose(stream)
        return told.read().count(b"<heap nr=")

can, before, at_once = share_one_heap(), heaps(), threading.Barrier(8)

def allocate():
    blocks = [b"1" * 1000 for _ in range(100)]
    at_once.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(heaps() - before if can else 0)
"""


def test_threads_that_come_later_get_no_heap_of_their_own() -> None:
    told = subprocess.run([sys.executable, "-c", HEAPS], capture_output=True, text=True, check=True)
    assert int(told.stdout) == 0


PAGES = """
from pathlib import Path
from tinsmith.engine.cluster.freed_memory import take_small_pages

can = take_small_pages()
told = Path("/proc/self/status").read_text().splitlines()
print([line.split()[1] for line in told if line.startswith("THP_enabled:")] if can else ["0"])
"""


def test_a_shard_takes_no_large_pages() -> None:
    told = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['0']"
