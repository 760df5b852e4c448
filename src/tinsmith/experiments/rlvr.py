"""`python -m tinsmith.experiments.rlvr key=value ...`: the same as `tinsmith run rlvr key=value ...`."""

from __future__ import annotations

import runpy
import sys


def main() -> None:
    """Hand everything on to the command line, which is a floor above and is not imported from here.

    Raises:
        SystemExit: always, with its exit code.
    """
    sys.argv[1:1] = ["run", "rlvr"]
    runpy.run_module("tinsmith", run_name="__main__")


if __name__ == "__main__":
    main()
