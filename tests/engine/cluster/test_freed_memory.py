"""What is freed goes back, or it is said that it does not; a hole among what is held is given back too."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tinsmith.engine.cluster.freed_memory import give_back_freed_memory


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_freed_between_what_is_held_goes_back() -> None:
    if not give_back_freed_memory():
        pytest.skip("no glibc")
    before = resident()
    blocks = [np.ones(100 << 10, np.uint8) for _ in range(400)]
    del blocks[:-1]
    give_back_freed_memory()
    assert resident() - before < 10 << 20
