"""Files of every format in `tests/shared/broken_files.py`, each broken 5,000 times: tracebacks, hangs and memory.

`mutations.py [NAME] [COUNT] [FIRST]`: one format alone, another count, from another number on.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "shared"))

from broken_files import FORMATS, mutated

COUNT = 5_000


def main() -> int:
    names = [sys.argv[1]] if len(sys.argv) > 1 else list(FORMATS)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else COUNT
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    faults = 0
    for name in names:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            findings = mutated(FORMATS[name], count, Path(folder), first=first)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        outcomes = ", ".join(f"{what} {number}" for what, number in sorted(findings.outcomes.items()))
        print(f"{name}: {count} broken files in {time.monotonic() - start:.0f} s, peak {peak:.0f} MiB: {outcomes}")
        for fault in findings.faults[:20]:
            print(f"  {fault}")
        print(f"  {len(findings.faults)} faults (goal 0: {'reached' if not findings.faults else 'NOT reached'})")
        faults += len(findings.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
