"""Start-up: `import tinsmith` and `tinsmith --help` in fresh processes, beside a bare interpreter."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 7
HEAVY = ("torch", "transformers", "tinker")


def seconds(arguments: list[str]) -> float:
    """Median wall seconds of fresh processes."""
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def heavy_modules(statement: str) -> list[str]:
    """Which of the heavy packages a statement imports."""
    program = f"import sys\n{statement}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return found.stdout.splitlines()[-1].split()


def main() -> None:
    bare = seconds(["-c", "pass"])
    for title, arguments, limit, statement in (
        ("import tinsmith", ["-c", "import tinsmith"], 0.2, "import tinsmith"),
        ("tinsmith --help", ["-m", "tinsmith", "--help"], 0.4, "import tinsmith.cli"),
    ):
        took = seconds(arguments)
        loaded = heavy_modules(statement)
        verdict = "reached" if took < limit and not loaded else "NOT reached"
        print(
            f"{title}: {took:.3f} s, of which the bare interpreter {bare:.3f} s; heavy modules: "
            f"{', '.join(loaded) or 'none'} (goal < {limit} s: {verdict})"
        )


if __name__ == "__main__":
    main()
