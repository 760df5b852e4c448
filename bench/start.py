"""Starts `tinsmith serve` on a model twice: wall and CPU seconds from the command to the line that says it is ready.

The first start is with an empty TINSMITH_HOME, the second with what the first one left there. A third figure is that of
`tinsmith.connect()`, from the call to a client that answers, in a process that has imported it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

GOAL_WALL, GOAL_CPU = 5.0, 8.0
READY = "tinsmith serve: "


@dataclass(frozen=True, slots=True)
class Started:
    """Seconds of one start."""

    wall: float
    cpu: float
    said: tuple[tuple[float, float, str], ...]
    """(wall, CPU so far, line) of everything it said on the way."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its threads, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(model: str, home: Path) -> Started:
    """Start a server, note what it says until it is ready, and stop it."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "tinsmith", "serve", "--port", "0", "--model", f"it={model}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TINSMITH_HOME": str(home)},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[tuple[float, float, str]] = []

    def note(lines: TextIO) -> None:
        for line in lines:
            said.append((time.perf_counter() - begin, cpu_seconds(process.pid), line.rstrip()))

    reader = threading.Thread(target=note, args=(process.stderr,), daemon=True)
    reader.start()
    line = process.stdout.readline()
    wall = time.perf_counter() - begin
    if not line.startswith(READY):
        process.wait()
        reader.join()
        sys.exit("\n".join(text for _, _, text in said))
    cpu = cpu_seconds(process.pid)
    process.terminate()
    process.communicate()
    reader.join()
    return Started(wall, cpu, tuple(each for each in said if each[0] <= wall))


EMBEDDED = """
import resource, sys, time, warnings
warnings.simplefilter("ignore")
from tinsmith.lab.service.connect import EmbeddedSettings, open_connection
begin = time.perf_counter()
connection = open_connection(None, EmbeddedSettings(models={"it": sys.argv[1]}))
wall = time.perf_counter() - begin
connection.close()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(wall, used.ru_utime + used.ru_stime)
"""


def embedded(model: str, home: Path) -> tuple[float, float]:
    """Start a server as `tinsmith.connect()` does; wall until it answers, CPU of the server until it is gone."""
    done = subprocess.run(
        [sys.executable, "-c", EMBEDDED, model],
        env={**os.environ, "TINSMITH_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder, or what else --model NAME=... takes")
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors")
    with tempfile.TemporaryDirectory() as home:
        for which in ("first", "second"):
            started = start(asked.model, Path(home))
            for wall, cpu, line in started.said:
                print(f"  {wall:6.2f} s {cpu:6.2f} CPU-s  {line}")
            reached = started.wall <= GOAL_WALL and started.cpu <= GOAL_CPU
            print(
                f"{which} start: {started.wall:.2f} s wall, {started.cpu:.2f} CPU-s (goal <= {GOAL_WALL:.0f} s, "
                f"{GOAL_CPU:.0f} CPU-s: {'reached' if reached else 'NOT reached'})"
            )
        wall, cpu = embedded(asked.model, Path(home))
        print(f"embedded, second start: {wall:.2f} s wall, {cpu:.2f} CPU-s")


if __name__ == "__main__":
    main()
