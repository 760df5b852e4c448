"""Kills a worker of a run at a random moment, again and again: every run must come to the hashes of an undisturbed one.

    python bench/kill_workers.py [runs] [steps]

Prints, for each run, who was killed when, and how much longer it took than the run before anybody was killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HASHES = ("weights_sha256", "rollouts_sha256", "metrics_sha256")


def command(folder: Path, steps: int, workers: int) -> list[str]:
    """A short RL run with its own server."""
    return [
        sys.executable,
        "-m",
        "tinsmith",
        "run",
        "rlvr",
        "at=nano",
        f"steps={steps}",
        "eval_every=0",
        f"workers={workers}",
        f"log_path={folder}",
        "quiet=true",
    ]


def hashes(folder: Path) -> tuple[str, ...]:
    """What a run came to."""
    text = (folder / "manifest.json").read_text(encoding="utf-8")
    found: dict[str, str] = {}

    def look(value: object) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key in HASHES and isinstance(inner, str):
                    found[key] = inner
                look(inner)

    look(json.loads(text))
    return tuple(found[name] for name in HASHES)


def workers_below(pid: int) -> list[int]:
    """Ray's worker processes of a run that have loaded a model, by their names."""
    below = {pid}
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
        except OSError:
            continue
    grown = True
    while grown:
        more = {child for child, parent in parents.items() if parent in below} - below
        grown = bool(more)
        below |= more
    found: list[int] = []
    for one in sorted(below):
        try:
            name = Path(f"/proc/{one}/cmdline").read_bytes()
        except OSError:
            continue
        if b"RayWorker" in name:
            found.append(one)
    return found


def main(runs: int, steps: int) -> int:
    """Return 1 where a hash differs."""
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        seconds: list[float] = []
        expected: tuple[str, ...] | None = None
        differing = 0
        for number in range(-1, runs):
            folder = Path(scratch) / f"run{number}"
            began = time.monotonic()
            process = subprocess.Popen(command(folder, steps, 2))
            killed = ""
            if number >= 0:
                ready = 0.0
                while process.poll() is None and not ready:
                    time.sleep(0.05)
                    if len(workers_below(process.pid)) == 2 and (folder / "trace.jsonl").exists():
                        ready = time.monotonic()
                time.sleep(draw.uniform(0.0, max(0.2, seconds[0] * 0.4)))
                alive = workers_below(process.pid)
                if process.poll() is None and alive:
                    victim = draw.choice(alive)
                    os.kill(victim, signal.SIGKILL)
                    killed = f"killed {victim} {time.monotonic() - ready:.2f} s after the start"
            code = process.wait()
            took = time.monotonic() - began
            seconds.append(took)
            found = hashes(folder) if code == 0 else ()
            expected = expected or found
            equal = found == expected and code == 0
            differing += not equal
            lost = took - seconds[0]
            print(f"run {number}: {'equal' if equal else f'DIFFERS (exit {code})'}, {took:.1f} s ({lost:+.1f}) {killed}", flush=True)
        print(f"{runs} runs, {differing} differing; lost {statistics.median(s - seconds[0] for s in seconds[1:]):+.1f} s (median)")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main(*(int(each) for each in (*sys.argv[1:], 5, 20)[:2])))
