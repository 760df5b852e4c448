"""Guardian process of a local Ray: ends all of Ray's processes with their parent and removes its folder.

It runs as a script of its own. Ray itself ends most of its processes. After a SIGKILL of the parent, two agents remain
for a minute, as does any process being started at that moment, and the folder always does. So the guardian waits until
its standard input closes, which the kernel guarantees, and then kills every process with a mark in its environment: all
that Ray started, and their children. It imports nothing of the package, so that it starts at once.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

MARK: Final = "TINSMITH_RAY_"
"""Prefix of the environment variable that marks the processes of a Ray."""

_ROUNDS: Final = 100
_PAUSE_SECONDS: Final = 0.05
_PROCESSES: Final = Path("/proc")


def marked(mark: str) -> list[int]:
    """Return the marked processes other than this one; none if the system does not list them."""
    sign = f"{mark}=1".encode()
    found: list[int] = []
    for folder in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # of another user, or gone meanwhile
            if sign in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def end(mark: str) -> None:
    """Kill the marked processes, and those that they start in the meantime."""
    for _ in range(_ROUNDS):
        alive = marked(mark)
        if not alive:
            return
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)


def main(mark: str, folder: str) -> None:
    """Wait until standard input closes, then clean up."""
    while sys.stdin.buffer.read(1):
        pass
    end(mark)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
