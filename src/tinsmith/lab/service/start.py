"""How a server that was started here comes up: waited for as long as it does something, and told truly if it does not.

It does something if it says a line or uses the processor. However large its models are, that is enough; a limit on
the time they take would only be right for some of them.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tinsmith.types.errors import BackendError, LostError
from tinsmith.types.waits import READY, STARTING, Say, ticking

STILL_SECONDS: Final = 120.0
"""How long a server that starts may do nothing at all."""

_LOOK_SECONDS: Final = 1.0
_REMEMBERED: Final = 50


@dataclass(slots=True)
class Stillness:
    """For how long nothing has changed."""

    since: float
    """When it was last seen to change, in seconds of any clock."""
    state: object = None

    def seconds(self, now: float, state: object) -> float:
        """Return for how long `state` has been the same, as of `now`."""
        if state != self.state:
            self.since, self.state = now, state
        return now - self.since


class Said:
    """What a server says on its standard error: what it is doing, and what went wrong."""

    def __init__(self, lines: IO[str]) -> None:
        """Read to the end, in a thread."""
        self.doing = "the server"
        self.wrong: list[str] = []
        """The last lines that are no progress."""
        self.count = 0
        """Lines so far."""
        self._lines = lines
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def join(self) -> None:
        """Wait until everything was read."""
        self._reader.join()

    def _read(self) -> None:
        with self._lines as lines:
            for line in lines:
                self.count += 1
                if line.startswith(STARTING):
                    self.doing = line.removeprefix(STARTING).rstrip()
                else:
                    self.wrong.append(line.rstrip())
                    del self.wrong[:-_REMEMBERED]


def wait_until_ready(process: subprocess.Popen[str], said: Said, say: Say | None = None) -> str:
    """Return the address that a server answers at; `say` gets lines on a start that lasts."""
    assert process.stdout is not None
    ready = threading.Event()
    gave_up = threading.Event()
    watch = threading.Thread(target=_watch, args=(process, said, ready, gave_up), daemon=True)
    watch.start()
    try:
        with ticking(lambda: f"{STARTING}{said.doing}", say):
            for line in process.stdout:
                if line.startswith(READY):
                    return line.removeprefix(READY).split()[0]
            process.wait()
    finally:
        ready.set()
        watch.join()
    said.join()
    if gave_up.is_set():
        raise BackendError(
            f"the embedded server neither wrote nor computed anything for {STILL_SECONDS:.0f} s, and was stopped",
            field="its last word",
            value=said.doing,
            fix="find out what it waits for: a disk that does not answer, or a machine out of time or memory",
        )
    if process.returncode < 0:
        raise LostError(
            f"the embedded server was ended by {_signal_name(-process.returncode)} before it answered",
            field="its last word",
            value=said.doing,
            fix="try again; if nobody stopped it, memory ran out: free some, or serve a smaller model",
        )
    last = "\n".join(said.wrong[-5:]) or f"exit code {process.returncode}"
    raise BackendError(f"the embedded server did not start: {last}")


def _watch(process: subprocess.Popen[str], said: Said, ready: threading.Event, gave_up: threading.Event) -> None:
    """End a server that has been still for too long."""
    stillness = Stillness(time.monotonic())
    while not ready.wait(_LOOK_SECONDS):
        state = (said.count, _cpu_ticks(process.pid))
        if stillness.seconds(time.monotonic(), state) > STILL_SECONDS:
            gave_up.set()
            process.kill()
            return


def _cpu_ticks(pid: int) -> int:
    """Return the processor time a process and its threads have used; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _signal_name(number: int) -> str:
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
