"""Essential processes of a local Ray, and detection of one that ended. Queries the system, never Ray."""

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
    """Process as listed by the operating system."""

    pid: int
    name: str
    parent: int
    ended: bool


@dataclass(slots=True)
class RayParts:
    """Essential processes of a Ray started here."""

    processes: Mapping[str, subprocess.Popen[bytes]]
    """Processes by name: the GCS and the raylet."""
    raylet: str = "raylet"
    _agents: dict[int, str] = field(default_factory=dict[int, str])
    """The raylet's agents by process id, Linux only; the raylet ends with them."""

    def ended(self) -> str | None:
        """Describe the part that has ended; None if all are running."""
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
    """Return the direct children of a process that were not reaped; none if the system does not list them."""
    pids = [int(folder.name) for folder in _PROCESSES.glob("[0-9]*")]
    return [process for process in map(_process, pids) if process is not None and process.parent == parent]


def _process(pid: int) -> Process | None:
    with suppress(OSError):
        stat = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        head, _, tail = stat.rpartition(")")
        state, parent, *_ = tail.split()
        return Process(pid, head.partition("(")[2], int(parent), state == "Z")
    return None
