"""Watchdog for the start of a local Ray: Ray would wait a minute, or forever, for a part that ended."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NoReturn

from tinsmith.engine.cluster.ray_parts import children
from tinsmith.types.errors import LostError

NEEDED: Final = ("gcs_server", "raylet")
"""Parts without which a Ray is dead, under Ray's names, which are also those of their processes."""
START_SECONDS: Final = 120.0
"""Timeout for Ray's start; on an idle machine it takes three seconds."""
EXIT_CODE: Final = 3
_LOOK_SECONDS: Final = 0.2
_GRACE_SECONDS: Final = 2.0
"""Seconds for Ray to report the failure itself."""


def end_process(error: LostError) -> NoReturn:
    """Print the reason and end this process at once; nothing else interrupts a wait for Ray."""
    print(f"tinsmith: {error}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(EXIT_CODE)


@contextmanager
def watched_start(seconds: float = START_SECONDS) -> Generator[None]:
    """End this process with exit code 3 if a Ray that the body starts cannot come up any more."""
    over = threading.Event()
    watcher = threading.Thread(target=_watch, args=(over, seconds), name="tinsmith-ray-start", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _watch(over: threading.Event, seconds: float) -> None:
    limit, started = time.monotonic() + seconds, dict[int, str]()
    while not over.wait(_LOOK_SECONDS):
        parts = [child for child in children(os.getpid()) if child.name in NEEDED]
        started |= {part.pid: part.name for part in parts}
        alive = {part.pid for part in parts if not part.ended}
        ended = [name for pid, name in started.items() if pid not in alive]
        why = f"Ray's {ended[0]} ended" if ended else f"it did not answer within {seconds:g} s"
        if (ended or time.monotonic() > limit) and not over.wait(_GRACE_SECONDS):
            end_process(LostError("Ray did not start", field="workers", value=why, fix="start it again"))
