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
from golden_runs import RUNS, build, conducted, conducted_debate, conducted_rlvr, packed  # noqa: E402

ALL = (*FROZEN, *RUNS, "rlvr", "debate")
BUNDLE = "bundle"
"""By name alone: it holds its machine's pace, and so is another each time."""


def main(asked: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory() as out:
        os.environ["TINSMITH_HOME"] = f"{out}/home"
        for name in asked or ALL:
            stem = name if name in (*FROZEN, BUNDLE) else f"run_{name}"
            file = TESTS / "golden" / f"{stem}.{'zip' if name == BUNDLE else 'json'}"
            before = file.read_bytes() if file.exists() else b""
            now = packed(Path(out) / name) if name == BUNDLE else _text(name, Path(out) / name)
            file.write_bytes(now)
            print(f"{file.name}: {'as before' if now == before else 'changed'}")
    return 0


def _text(name: str, out: Path) -> bytes:
    indent = None if name in ("cells", "measurements") else 1
    return (json.dumps(_found(name, out), indent=indent) + "\n").encode()


def _found(name: str, out: Path) -> object:
    if name in FROZEN:
        return FROZEN[name]()
    if name == "debate":
        return conducted_debate(out)
    return conducted_rlvr(build(), out) if name == "rlvr" else conducted(build(), name, out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
