"""Writes what is golden as it is here, or the files that are named: for a change that is meant to change bits."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

sys.path.insert(0, str(TESTS / "shared"))

from golden_frozen import FROZEN  # noqa: E402  # they lie with the tests
from golden_runs import RUNS, build, conducted, conducted_debate, conducted_rlvr  # noqa: E402

ALL = (*FROZEN, *RUNS, "rlvr", "debate")


def main(asked: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as out:
        os.environ["TINSMITH_HOME"] = f"{out}/home"
        for name in asked or ALL:
            file = TESTS / "golden" / (f"{name}.json" if name in FROZEN else f"run_{name}.json")
            before = file.read_text(encoding="utf-8") if file.exists() else ""
            now = (
                json.dumps(_found(name, Path(out) / name), indent=None if name in ("cells", "measurements") else 1)
                + "\n"
            )
            file.write_text(now, encoding="utf-8")
            print(f"{file.name}: {'as before' if now == before else 'changed'}")
    return 0


def _found(name: str, out: Path) -> object:
    if name in FROZEN:
        return FROZEN[name]()
    if name == "debate":
        return conducted_debate(out)
    return conducted_rlvr(build(), out) if name == "rlvr" else conducted(build(), name, out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
