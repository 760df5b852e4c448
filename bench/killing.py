"""Runs `tinsmith run` as processes of its own and kills them: the client, its embedded server, or both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType


class Victim(StrEnum):
    """Who is killed."""

    CLIENT = "client"
    SERVER = "server"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a killed run."""

    code: int
    seconds: float
    """From the kill until the client was gone."""
    said: str
    """Its last words."""
    server: int | None


class Command:
    """`tinsmith run NAME key=value ...`, going on with what is in its folder."""

    def __init__(self, experiment: str, keys: Mapping[str, str]) -> None:
        resumed = {**keys, "behavior_if_log_dir_exists": "resume"}
        changes = [f"{key}={value}" for key, value in resumed.items()]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tinsmith", "run", experiment, *changes],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def server(self) -> int | None:
        """Return the process id of the embedded server; None where there is none now."""
        return next((pid for pid, parent in _parents() if parent == self.process.pid), None)

    def kill(self, victim: Victim) -> Ended:
        """Kill now; wait until the client is gone. Without a server the client is killed in any case."""
        server = self.server()
        began = time.perf_counter()
        if victim is not Victim.CLIENT and server is not None:
            os.kill(server, signal.SIGKILL)
        if victim is not Victim.SERVER or server is None:
            self.process.kill()
        return self._ended(began, server)

    def end(self) -> Ended:
        """Wait for its end."""
        return self._ended(time.perf_counter(), None)

    def _ended(self, began: float, server: int | None) -> Ended:
        _, said = self.process.communicate(timeout=600)
        took = time.perf_counter() - began
        return Ended(self.process.returncode, took, said.strip(), server)

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


def lives(pid: int) -> bool:
    """Return true if a process is there and no zombie."""
    try:
        return _stat(pid)[0] != "Z"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, which may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _parents() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found.append((int(entry.name), int(_stat(int(entry.name))[1])))
            except OSError:
                continue  # it ended meanwhile
    return found
