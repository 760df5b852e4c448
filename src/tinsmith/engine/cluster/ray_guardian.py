"""Ends every process of a Ray when the process that started it ends, and removes its folder; run as a file of its own.

Ray's own means end most of them. Two agents stay for a minute where a SIGKILL ended the first process, whatever was
being started at that moment stays too, and the folder always does. So this waits until its standard input closes, which
the kernel sees to, and then ends all processes that bear a mark in their environment: what Ray started, and what that
started. Imports nothing of the package, so that it begins at once.
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
    """Return the processes that bear a mark, but for this one; none where the system does not tell."""
    sign = f"{mark}=1".encode()
    found: list[int] = []
    for folder in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # of another user, or gone meanwhile
            if sign in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def end(mark: str) -> None:
    """Kill the marked processes, and those that they start meanwhile."""
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
