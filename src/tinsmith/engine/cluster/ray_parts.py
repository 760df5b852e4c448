"""The processes that a Ray of our own cannot do without, and which of them has ended. Asks the system, never Ray."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_AGENT: Final = b"agent"


@dataclass(frozen=True, slots=True)
class Process:
    """A process as the system tells of it."""

    pid: int
    name: str
    parent: int
    ended: bool


@dataclass(slots=True)
class RayParts:
    """The parts of a Ray that was started here."""

    processes: Mapping[str, subprocess.Popen[bytes]]
    """By name: the GCS and the raylet."""
    raylet: str = "raylet"
    _agents: dict[int, str] = field(default_factory=dict[int, str])
    """The raylet's agents, without which it ends too, by process id; of Linux only."""

    def ended(self) -> str | None:
        """Return which part has ended, and how; None: all are there."""
        for name, process in self.processes.items():
            code = process.poll()
            if code is not None:
                return f"Ray's {name} ended ({f'signal {-code}' if code < 0 else f'exit code {code}'})"
        for pid, name in self._agents.items():
            process = _process(pid)
            if process is None or process.ended:
                return f"Ray's {name} ended"
        if not self._agents:
            self._agents = _agents(self.processes[self.raylet].pid)
        return None


def _agents(raylet: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for child in children(raylet):
        with suppress(OSError):
            line = (_PROCESSES / str(child.pid) / "cmdline").read_bytes()
            name = next((Path(part.decode(errors="replace")).stem for part in line.split(b"\0") if _AGENT in part), "")
            if name and not child.ended:
                found[child.pid] = name
    return found


def children(parent: int) -> list[Process]:
    """Return the processes that a process has started and not waited for; none, where the system does not tell."""
    pids = [int(folder.name) for folder in _PROCESSES.glob("[0-9]*")]
    return [process for process in map(_process, pids) if process is not None and process.parent == parent]


def _process(pid: int) -> Process | None:
    with suppress(OSError):
        stat = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        head, _, tail = stat.rpartition(")")
        state, parent, *_ = tail.split()
        return Process(pid, head.partition("(")[2], int(parent), state == "Z")
    return None
