"""Runs every benchmark and prints the lines with a goal once more at the end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    "startup.py",
    "gemm.py",
    "decode.py",
    "train.py",
    "grpo.py",
    "lab_step.py",
    "incentives.py",
    "service.py",
    "ingest.py",
    "cd.py",
    "atypicality.py",
    "slice.py",
)


def main() -> int:
    goals: list[str] = []
    failed: list[str] = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        process = subprocess.Popen([sys.executable, name], cwd=Path(__file__).parent, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if "(goal " in line:
                goals.append(line.rstrip())
        if process.wait() != 0:
            failed.append(name)
    print("\n".join(["", "== goals", *goals, *(f"{name}: did not finish" for name in failed)]))
    return 1 if failed or any("NOT reached" in line for line in goals) else 0


if __name__ == "__main__":
    sys.exit(main())
