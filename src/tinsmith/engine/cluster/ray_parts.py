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
            if _parent(pid) is None:
                return f"Ray's {name} ended"
        if not self._agents:
            self._agents = _agents(self.processes[self.raylet].pid)
        return None


def _agents(raylet: int) -> dict[int, str]:
    found: dict[int, str] = {}
    for folder in _PROCESSES.glob("[0-9]*"):
        pid = int(folder.name)
        if _parent(pid) != raylet:
            continue
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            name = next((Path(part.decode(errors="replace")).stem for part in line.split(b"\0") if _AGENT in part), "")
            if name:
                found[pid] = name
    return found


def _parent(pid: int) -> int | None:
    """Return a process's parent; None: it has ended, or the system does not tell."""
    with suppress(OSError):
        state, parent, *_ = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return None if state == "Z" else int(parent)
    return None
