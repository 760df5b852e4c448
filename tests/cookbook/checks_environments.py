"""Environments cross over: ours in the cookbook's rollouts, the cookbook's in ours, each by its own types."""

import json
import os
import subprocess
import sys

from foreign_programs import SECONDS
from tiny_model import NAME
from workbench import COOKBOOK, SCRIPTS, Workbench

from running import KEY, Running


def test_environments_cross_over(bench: Workbench, server: Running) -> None:
    script = str(SCRIPTS / "our_environments.py")
    done = subprocess.run(
        [sys.executable, script, str(COOKBOOK.packages), NAME, str(bench.folder / NAME)],
        cwd=bench.folder,
        env={**os.environ, "TINKER_BASE_URL": server.url, "TINKER_API_KEY": KEY},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout.splitlines()[-1])
    theirs, ours = lines["theirs"], lines["ours"]
    assert theirs["turns"] == [2, 2, 2]
    assert theirs["errors"] == 0
    # What was sampled is the prefix of what came next: one datum each, and B's tokens are masked.
    assert theirs["datums"] == [1, 1, 1]
    assert theirs["trained"] == theirs["sampled"]
    assert all(-1.0 <= reward <= 1.5 for reward in theirs["rewards"])
    assert ours["fits"]
    assert ours["turns"] == [2, 2, 2]
    assert ours["steps"] == ours["parity"]
