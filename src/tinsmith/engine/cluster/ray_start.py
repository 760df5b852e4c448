"""The start of a Ray of our own, watched: where a part of it ends meanwhile, Ray waits for it a minute, or for ever."""

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
"""Parts without which a Ray is dead, as it calls them; so are their processes."""
START_SECONDS: Final = 120.0
"""For the parts of a Ray to be there and to answer; where nothing else runs it takes three."""
EXIT_CODE: Final = 3
_LOOK_SECONDS: Final = 0.2
_GRACE_SECONDS: Final = 2.0
"""For Ray to say by itself what is wrong."""


def end_process(error: LostError) -> NoReturn:
    """Say why, and end this process at once: where Ray is waited for, nothing else ends it."""
    print(f"tinsmith: {error}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(EXIT_CODE)


@contextmanager
def watched_start(seconds: float = START_SECONDS) -> Generator[None]:
    """End this process with exit code 3 if a Ray that is started in the body cannot come up any more."""
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
