"""Writes the hashes that the golden runs have here: for a change that is meant to change bits."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from golden_runs import RUNS, build, conducted  # noqa: E402  # they lie with the tests


def main() -> int:
    with tempfile.TemporaryDirectory() as out:
        os.environ["TINSMITH_HOME"] = f"{out}/home"
        ground = build()
        for name in RUNS:
            file = TESTS / "golden" / f"run_{name}.json"
            before = file.read_text(encoding="utf-8") if file.exists() else ""
            now = json.dumps(conducted(ground, name, Path(out) / name), indent=1) + "\n"
            file.write_text(now, encoding="utf-8")
            print(f"{file.name}: {'as before' if now == before else 'changed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
