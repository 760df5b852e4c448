"""A published file held as it is against the same as fp32: speed of conversations, and memory of `tinsmith serve`.

A prompt of 40 tokens and 128 new ones, once, 8 times and 32 times at once, both ways in turn; then a server of each
kind, its memory when it is ready and the largest until then. With --llama, a python that has llama-cpp-python,
llama.cpp on the same file takes part.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Final

from peers import idle_threads_sleep
from sides.side import Measured

SIDES: Final = Path(__file__).parent / "sides"
HOLDS: Final = ("published", "fp32")
SAMPLES: Final = (1, 8, 32)
LENGTH, NEW = 40, 128


class Side:
    """A process that has the model, and does one piece of work after another."""

    def __init__(self, title: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        self.title, self.done = title, list[Measured]()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, task: dict[str, object], *, counts: bool) -> None:
        """Do it; what does not count warms up."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(task), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline() or sys.exit(f"{self.title} failed")
        if counts:
            self.done.append(Measured(**json.loads(line)))

    def close(self) -> None:
        """Let it end."""
        self._process.communicate()


def compare(options: argparse.Namespace) -> None:
    """Time all sides in turn, and print medians and ratios to the first."""
    ours = [sys.executable, str(SIDES / "tinsmith_held.py"), options.file, str(options.threads)]
    sides = [Side(hold, [*ours, hold]) for hold in HOLDS]
    if options.llama:
        # Its threads meet after every operation: to sleep there takes it four times as long.
        its_own = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
        command = [options.llama, str(SIDES / "llama_samples.py"), options.file, str(options.threads)]
        sides.append(Side("llama.cpp", command, its_own))
    for samples in SAMPLES:
        task = {"length": LENGTH, "new": NEW, "samples": samples, "prompts": [list(range(100, 100 + LENGTH))]}
        for side in sides:
            side.done.clear()
        for number in range(options.rounds + 1):
            for side in sides:
                side.run({**task, "seed": number, "cache": "f16", "flash": True, "rows": 512}, counts=number > 0)
        print(f"{samples} of {NEW} new tokens after {LENGTH}:")
        first = sides[0].done
        for side in sides:
            wall, cpu = (statistics.median(getattr(one, what) for one in side.done) for what in ("wall", "cpu"))
            told = [
                statistics.median(getattr(one, what) for one in first) / value
                for what, value in (("wall", wall), ("cpu", cpu))
            ]
            print(
                f"  {side.title}: {side.done[0].tokens / wall:.1f} tokens/s, {cpu:.2f} CPU-s; "
                f"{sides[0].title} takes {told[0]:.2f}x wall, {told[1]:.2f}x CPU-s"
            )
    for side in sides:
        side.close()


def memory(file: str, hold: str) -> tuple[float, float]:
    """MB that a server has when it is ready, and the most it had until then."""
    command = [sys.executable, "-m", "tinsmith", "serve", "--port", "0", "--model", f"it={file}", "--hold", hold]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    process.stdout.readline() or sys.exit("the server did not start")
    status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    process.terminate()
    process.communicate()
    ready, peak = (int(status[key].split()[0]) / 1e3 for key in ("VmRSS", "VmHWM"))
    return ready, peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="a GGUF file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--llama", help="python with llama-cpp-python")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.2f}, {os.cpu_count()} processors")
    compare(options)
    found = {hold: memory(options.file, hold) for hold in HOLDS}
    for hold, (ready, peak) in found.items():
        print(f"serve, {hold}: {ready:.0f} MB ready, {peak:.0f} MB at most until then")
    print(f"ready: {found['published'][0] / found['fp32'][0]:.2f}x of fp32")


if __name__ == "__main__":
    idle_threads_sleep()
    main()
