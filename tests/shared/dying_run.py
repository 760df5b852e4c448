"""`tinsmith` that is killed at one of its writes: `dying_run.py VICTIM FILE NUMBER run ...`, in the middle of a line.

VICTIM is client or both, it and its server. NUMBER counts this process's writes to FILE. The server's process id is
printed first.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tinsmith.cli import main
from tinsmith.lab.runs.files import CHECKPOINTS
from tinsmith.lab.runs.folder import RunFolder
from tinsmith.lab.service.connect import EmbeddedServer, EmbeddedSettings

VICTIM, FILE, NUMBER = sys.argv[1], sys.argv[2], int(sys.argv[3])

append_line, note, write_whole = RunFolder.append, RunFolder.mark, RunFolder.write_json
start = EmbeddedServer.__init__

servers: list[int] = []
written = 0


def counted(name: str) -> bool:
    global written
    written += name == FILE
    return name == FILE and written == NUMBER


def strike() -> None:
    print(servers[-1], flush=True)
    if VICTIM == "both":
        os.kill(servers[-1], signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def append(self: RunFolder, name: str, lines: Sequence[Mapping[str, object]]) -> None:
    if counted(name):
        with (self.path / name).open("ab") as file:
            file.write(b'{"step": 99, "half a li')
        strike()
    append_line(self, name, lines)


def mark(self: RunFolder, **told: Any) -> None:
    if counted(CHECKPOINTS):
        strike()
    note(self, **told)


def write_json(self: RunFolder, name: str, value: Mapping[str, object]) -> None:
    if counted(name):
        strike()
    write_whole(self, name, value)


def remembered(self: EmbeddedServer, settings: EmbeddedSettings, *more: Any) -> None:
    start(self, settings, *more)
    servers.append(self.pid)


setattr(EmbeddedServer, "__init__", remembered)  # noqa: B010  # pyright does not let a method be assigned
for patched in (append, mark, write_json):
    setattr(RunFolder, patched.__name__, patched)
main(sys.argv[4:])
