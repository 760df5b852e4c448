"""Silences of each command, as a person in a terminal meets them: seconds between two outputs, in a pseudo-terminal.

With `--pipe` standard output and error are a pipe, where the lines on a wait come ever more seldom by design; the
figure to look at there is the wait before the first of them. Each command runs once, in a folder made for it.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GOAL: Final = 2.0
SMALLEST: Final = "steps=2 eval_every=0 group_size=2 groups_per_batch=2 eval_items=8 behavior_if_log_dir_exists=delete"
COMMANDS: Final = {
    "doctor": "doctor",
    "data build": "data build --source synthetic --out corpus --preset tiny",
    "data metrics": "data metrics corpus",
    "new": "new my_task.py",
    "dry_run": "run my_task.py dry_run=true",
    "run FILE.py": f"run my_task.py {SMALLEST} log_path=own",
    "run": f"run crossroads {SMALLEST} log_path=run",
    "run, labels": f"run ladder/exp1 {SMALLEST} log_path=labels",
    "study": "run dead_groups size=smallest out=study",
    "report": "report run --out page.html",
    "report, two": "report run own --out both.html",
    "export-results": "export-results run --to csv --out tables",
    "audit": "audit run",
    "pack": "pack run --out run.zip",
    "unpack": "unpack run.zip again",
    "replay": "replay run",
    "diff": "diff run own",
    "ls": "ls .",
    "export": "export run --to peft --out adapter",
    "serve": "serve --port 0 --state state --model it=tinsmith/nano",
}
"""In this order: later ones look at what earlier ones left."""
_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which a command wrote nothing."""

    seconds: float
    at: float
    """Seconds from its start."""
    after: str
    """The last line before it."""


def silences(arguments: Sequence[str], folder: Path, *, piped: bool, until: str | None) -> tuple[list[Silence], int]:
    """Run a command to its end, or until it prints `until`; return its silences in order and its exit code."""
    ours, theirs = os.pipe() if piped else pty.openpty()
    began = last = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "tinsmith", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "120", "LINES": "50", "TERM": "xterm"},
    )
    os.close(theirs)
    gaps: list[Silence] = []
    text, output = "", b"-"
    while output:
        select.select([ours], [], [])
        try:
            output = os.read(ours, 1 << 16)
        except OSError:  # a terminal whose last program is gone
            output = b""
        now = time.perf_counter()
        lines = [line for line in _ESCAPES.sub("\n", text).splitlines() if line.strip()]
        gaps.append(Silence(now - last, last - began, lines[-1].strip() if lines else "(its start)"))
        last, text = now, (text + output.decode("utf-8", "replace"))[-4000:]
        if until is not None and until in text:
            process.send_signal(signal.SIGTERM)
            break
    code = process.wait()
    os.close(ours)
    return gaps, code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="which commands; none: all")
    parser.add_argument("--pipe", action="store_true", help="a pipe in place of a terminal")
    parser.add_argument("--folder", type=Path, help="where they run; by default a new folder, deleted at the end")
    asked = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors, {'a pipe' if asked.pipe else 'a terminal'}")
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made)
        folder.mkdir(exist_ok=True)
        for name in asked.names or COMMANDS:
            arguments = COMMANDS[name].split()
            until = "tinsmith serve: " if name == "serve" else None
            gaps, code = silences(arguments, folder, piped=asked.pipe, until=until)
            longest, took = max(gap.seconds for gap in gaps), gaps[-1].at + gaps[-1].seconds
            verdict = "reached" if longest <= GOAL else "NOT reached"
            print(f"{name:15} {longest:5.1f} s silent of {took:5.1f} s, exit {code} ({verdict})", flush=True)
            for gap in gaps:
                if gap.seconds > GOAL:
                    print(f"{'':15} {gap.seconds:5.1f} s at {gap.at:5.1f} s, after: {gap.after[:90]}", flush=True)


if __name__ == "__main__":
    main()
