"""One cell of a study where it is sent: a run in a process of its own on that node, in the cell's own folder.

Knows no Ray, and imports nothing heavy: the process that takes the task waits for the run and computes nothing.
"""

from __future__ import annotations

import fcntl
import os
import platform
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from tinsmith.types.source import source_sha256

_LAST: Final = 5  # Lines of what a run says last that are kept: as many as an error has.
_OWN: Final = ("TINSMITH_", "OMP_")
"""Prefixes of variables that say how tinsmith computes: those of the study hold on every node."""
UNSEEN: Final = "it does not see the study's folder: a study on several nodes needs one that they share"
OTHER_SOURCE: Final = "it has another version of tinsmith"
_runs: Final[set[subprocess.Popen[str]]] = set()
"""Runs of this process that were not interrupted yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCell:
    """A cell, as it is sent."""

    name: str
    label: str = ""  # Its name for a reader.
    arguments: tuple[str, ...]  # What stands after `tinsmith run`.
    threads: int  # Of the kernels: the cores that it takes of its node.
    here: str  # The folder that relative paths begin at.
    sign: str  # A file beside the cell's folder: who reads the token in it sees the folder, who has its lock is alone.
    token: str
    source: str = field(default_factory=source_sha256)  # Of the package that sends it.
    environment: Mapping[str, str] = field(
        default_factory=lambda: {k: v for k, v in os.environ.items() if k.startswith(_OWN)}
    )
    """Variables that are to be the same wherever it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """End of the process of a cell."""

    node: str
    code: int = 0  # Its exit code; below 0: the number of the signal that killed it.
    seconds: float = 0.0
    last_lines: tuple[str, ...] = ()  # Its last lines on standard error.
    refused: str = ""  # Why it did not begin; empty: it did.


def run_cell(cell: NodeCell) -> Ended:
    """Run a cell to its end; where another process is at it still, when that has ended."""
    node = platform.node()
    if cell.source != source_sha256():
        return Ended(node=node, refused=OTHER_SOURCE)
    try:
        is_visible = Path(cell.here).is_dir() and Path(cell.here, cell.sign).read_text() == cell.token
    except OSError:
        is_visible = False
    if not is_visible:
        return Ended(node=node, refused=UNSEEN)
    with Path(cell.here, cell.sign).open("r+") as sign:
        # A process whose node was given up may still write. The run holds the lock too, for as long as it lives.
        fcntl.flock(sign, fcntl.LOCK_EX)
        return _run(cell, node, sign)


def _run(cell: NodeCell, node: str, lock: IO[str]) -> Ended:
    """Run it as a child that ends with this process: its standard input closes then."""
    began = time.perf_counter()
    # Ray tells its processes by variables what they are, which a run of its own is not, and gives a task as many
    # threads of OpenMP as cores; a run that is not a task has the node's own number.
    own = {k: v for k, v in os.environ.items() if not k.startswith("RAY_") and k != "OMP_NUM_THREADS"}
    run = subprocess.Popen(
        [sys.executable, "-m", "tinsmith", "run", "--exit-with-stdin", *cell.arguments],
        cwd=cell.here,
        env={**own, **cell.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        pass_fds=(lock.fileno(),),
        process_group=0,  # Ctrl-C in a terminal reaches the study alone: a second interrupt would end the run at once
    )
    _runs.add(run)
    with run:
        assert run.stderr is not None
        last_lines = deque((line.rstrip() for line in run.stderr), maxlen=_LAST)
        code = run.wait()
    _runs.discard(run)
    return Ended(node=node, code=code, seconds=time.perf_counter() - began, last_lines=tuple(filter(None, last_lines)))


def interrupt_runs() -> bool:
    """Interrupt each run of this process, once: it saves a checkpoint after its step; True if there was one."""
    to_end = [*_runs]
    for run in to_end:
        _runs.discard(run)
        run.send_signal(signal.SIGINT)
    return bool(to_end)
