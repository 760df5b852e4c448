"""The same 20-step RL run with other threads, instruction sets and micro-batches, each in a process: one set of hashes.

Each row is a client and an embedded server of its own; the base is built once, by this process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from golden_runs import RUNS, build, hashes_of
from tinsmith.ops.extension import module

KEY = "tml-same-run"


@dataclass(frozen=True, slots=True)
class Row:
    """Settings of a run."""

    title: str
    environment: dict[str, str] = field(default_factory=dict)
    micro_batch: int = 0
    """0: an embedded server as always; else a server of its own that is told so."""


def rows() -> list[Row]:
    isas = list(reversed(module().supported_isas()))  # scalar code last: it takes minutes
    return [
        Row("as it is"),
        Row("again"),
        *(Row(f"TINSMITH_THREADS={n}", {"TINSMITH_THREADS": n}) for n in ("1", "2")),
        *(Row(f"micro-batch {size}", micro_batch=size) for size in (1, 8)),
        *(Row(f"TINSMITH_ISA={isa}", {"TINSMITH_ISA": isa}) for isa in isas),
    ]


def run(row: Row, keys: dict[str, str], base: Path, state: Path) -> None:
    """Run it as a process of its own.

    Raises:
        CalledProcessError: it failed; its words are on standard error.
    """
    environment = {**os.environ, **row.environment}
    command = [sys.executable, "-m", "tinsmith"]
    server: subprocess.Popen[str] | None = None
    try:
        if row.micro_batch:
            environment["TINKER_API_KEY"] = KEY
            flags = ["--model", f"base={base}", "--micro-batch", str(row.micro_batch)]
            flags += ["--port", "0", "--state", str(state), "--exit-with-stdin"]
            server = subprocess.Popen(
                [*command, "serve", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
            assert server.stdout is not None
            url = server.stdout.readline().split()[2]
            keys = {**keys, "base_url": url, "model_name": "base"}
        changes = [f"{key}={value}" for key, value in keys.items()]
        subprocess.run(
            [*command, "run", RUNS["rl"][0], *changes], check=True, env=environment, stdout=subprocess.DEVNULL
        )
    finally:
        if server is not None:
            server.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="Titles of rows, or parts of them. Default: all.")
    only = parser.parse_args().only
    chosen = [row for row in rows() if not only or any(part in row.title for part in only)]
    sets: set[tuple[tuple[str, str | None], ...]] = set()
    with tempfile.TemporaryDirectory() as out:
        os.environ.setdefault("TINSMITH_HOME", f"{out}/home")
        ground = build()
        for number, row in enumerate(chosen):
            folder = Path(out) / str(number)
            began = time.perf_counter()
            run(row, ground.keys("rl", folder), ground.base, Path(out) / f"state-{number}")
            found = hashes_of(folder)
            sets.add(tuple(found.items()))
            shown = "  ".join(f"{name} {(value or '')[:12]}" for name, value in found.items())
            print(f"{row.title:20} {time.perf_counter() - began:6.1f} s  {shown}", flush=True)
    verdict = "reached" if len(sets) == 1 else "NOT reached"
    print(f"{len(sets)} set(s) of hashes (goal 1: {verdict})")
    return 0 if len(sets) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
