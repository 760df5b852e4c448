"""Other work on this machine, by the processor time that one gets: forecasts are of a machine that has none."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Sequence
from typing import Final

_PROBE_SECONDS: Final = (0.25, 1.5)  # A moment tells that nothing else runs; how much is told by a longer one.
_BLOCK: Final = bytes(1 << 16)
_WORTH_A_LINE: Final = 1.2  # Times as long as on an idle machine.


def slowdown(cores: int) -> float:
    """Return how many times as long as on an idle machine a run on all cores takes now.

    So many threads hash for a moment; the share of it that they were given is what counts. A run does not fill its
    cores as they do, so that it is slowed by less, down to not at all: the geometric middle is returned. Measured: of
    two cores whose half was given, 2.1 by hashing, 1.27 of a run of a nano base.
    """
    times = 1.0
    for seconds in _PROBE_SECONDS:
        times = math.sqrt(_hashing(cores, seconds))
        if times < _WORTH_A_LINE:
            break
    return times


def _hashing(cores: int, seconds: float) -> float:
    began, used = time.perf_counter(), time.process_time()

    def work() -> None:
        while time.perf_counter() < began + seconds:
            for _ in range(16):
                hashlib.sha256(_BLOCK)

    threads = [threading.Thread(target=work) for _ in range(cores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return slower(time.process_time() - used, time.perf_counter() - began, cores)


def slower(used: float, took: float, cores: int) -> float:
    """Return how many times too long something took that would have filled the cores.

    >>> slower(0.1, 0.1, 2)
    2.0
    >>> slower(0.21, 0.1, 2)
    1.0
    """
    return max(1.0, cores * took / max(used, 1e-9))


def busy_lines(times: float) -> Sequence[str]:
    """Say that a forecast is too short now, if it is.

    >>> busy_lines(2.04)
    ['other work runs on this machine: expect about 2.0 times as long']
    >>> busy_lines(1.1)
    []
    """
    return (
        [f"other work runs on this machine: expect about {times:.1f} times as long"] if times >= _WORTH_A_LINE else []
    )
