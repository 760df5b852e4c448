"""One side of a comparison: a process that does the work it is sent, and times itself.

A process for each, so that memory and threads are its own. A line of JSON in, a line of JSON out.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Measured:
    """Measures of a piece of work."""

    tokens: int
    """Tokens it made or trained on, as the side counted them."""
    wall: float
    cpu: float
    """User and system seconds of all threads."""
    peak: float
    """Largest memory of the process so far, MB."""


def measure(work: Callable[[], int]) -> Measured:
    """Do it; `work` returns how many tokens it did."""
    begun, cpu = time.perf_counter(), _cpu()
    tokens = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return Measured(tokens, time.perf_counter() - begun, _cpu() - cpu, peak)


def serve(work: Callable[[dict[str, Any]], Measured]) -> None:
    """Answer every line of standard input until it ends; what the work itself prints goes to standard error."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(asdict(work(json.loads(line)))), file=out, flush=True)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
