"""Kills a worker of a run at a random moment, again and again: every run must come to the hashes of an undisturbed one.

    python bench/kill_workers.py [RUNS] [STEPS] [all]

With `all` the server and all its workers are killed, and the run is resumed by the same command.

Prints who was killed when, and how much longer a run took than the undisturbed one; exit 1 where a hash differs.
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
from typing import cast

HASHES = ("weights_sha256", "rollouts_sha256", "metrics_sha256")
WORKERS = 2


def run(folder: Path, steps: int) -> subprocess.Popen[bytes]:
    """Start a short RL run on a server with workers."""
    settings = ("at=nano", f"steps={steps}", "eval_every=0", f"workers={WORKERS}", "quiet=true")
    command = [sys.executable, "-m", "tinsmith", "run", "rlvr", *settings, f"log_path={folder}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def hashes(folder: Path) -> tuple[str, ...]:
    """Return a run's hashes."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found = cast("dict[str, str]", manifest["hashes"])
    return tuple(found[name] for name in HASHES)


def below(pid: int) -> list[int]:
    """A process and all that it has started, and these."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found, more = {pid}, {pid}
    while more:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
    return sorted(found)


def workers_of(pid: int) -> list[int]:
    """Processes below `pid` in which Ray keeps a worker of ours, by the name that it gives them."""
    return [each for each in below(pid) if b"RayWorker" in _name(each)]


def _name(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def server_of(pid: int) -> list[int]:
    """The server that a run has started."""
    return [each for each in below(pid) if b"\0serve\0" in _name(each)]


def killed(
    process: subprocess.Popen[bytes],
    folder: Path,
    draw: random.Random,
    steps: int,
    step_seconds: float,
    *,
    everybody: bool,
) -> str:
    """Kill one of a run's workers, or all and the server, at some moment of a step after the first; say who it was."""
    after, wait = draw.randrange(1, steps), draw.uniform(0.0, step_seconds)
    while process.poll() is None and _steps_done(folder) < after:
        time.sleep(0.02)
    time.sleep(wait)
    alive = workers_of(process.pid)
    if process.poll() is not None or not alive:
        return "nobody was killed: the run was over"
    victim = draw.choice(alive)
    for each in [*server_of(process.pid), *alive] if everybody else [victim]:
        os.kill(each, signal.SIGKILL)
    return f"process {victim} killed {wait:.2f} s after step {after}"


def main(runs: int, steps: int, *, everybody: bool) -> int:
    """Return 1 where a hash differs."""
    draw = random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "undisturbed"
        began = time.monotonic()
        process = run(folder, steps)
        killed_nobody = process.wait()
        alone = time.monotonic() - began
        expected = hashes(folder)
        each_step = _step_seconds(folder, steps)
        print(f"undisturbed: exit {killed_nobody}, {alone:.1f} s, {each_step:.2f} s a step", flush=True)
        lost: list[float] = []
        differing = disturbed = 0
        for number in range(runs):
            folder = Path(scratch) / f"run{number}"
            began = time.monotonic()
            process = run(folder, steps)
            what = killed(process, folder, draw, steps, each_step, everybody=everybody)
            code = process.wait()
            if everybody and what.startswith("process"):
                what += f"; exit {code}, resumed"
                code = run(folder, steps).wait()
            took = time.monotonic() - began
            equal = code == 0 and hashes(folder) == expected
            differing += not equal
            if what.startswith("process"):
                disturbed += 1
                lost.append(took - alone)
            verdict = "equal" if equal else f"DIFFERS, exit {code}"
            print(f"run {number}: {verdict}, {took - alone:+.1f} s; {what}", flush=True)
        median = statistics.median(lost) if lost else float("nan")
        print(f"{runs} runs, {disturbed} disturbed, {differing} differing; {median:+.1f} s each (median)")
    return int(differing > 0)


def _steps_done(folder: Path) -> int:
    try:
        return len((folder / "trace.jsonl").read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return 0


def _step_seconds(folder: Path, steps: int) -> float:
    """Of a step, on the average, from the run's first record of one to the last file of training."""
    lines = (folder / "timings.jsonl").read_text(encoding="utf-8").splitlines()
    return sum(json.loads(line)["step_s"] for line in lines) / steps


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    whole = "all" in sys.argv[1:]
    sys.exit(main(given[0] if given else 50, given[1] if len(given) > 1 else 60, everybody=whole))
