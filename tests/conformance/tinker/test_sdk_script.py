"""One script, any server: it imports tinker only, and without a seed it repeats exactly (checks 8, 15, 16)."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sdk_server import FreshServer, Server

SCRIPT = Path(__file__).with_name("hosted_script.py")


def start_script(server: Server) -> subprocess.Popen[str]:
    """Run the script with nothing but the server's address and key changed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), server.model],
        env={**environment, "TINKER_BASE_URL": server.url, "TINKER_API_KEY": server.key},
        cwd=SCRIPT.parent.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(script: subprocess.Popen[str]) -> list[dict[str, object]]:
    """What the script printed."""
    out, err = script.communicate(timeout=120)
    assert script.returncode == 0, err
    assert "Traceback" not in err
    return [json.loads(line) for line in out.splitlines()]


def test_the_script_imports_tinker_only() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported == {"__future__", "json", "sys", "tinker"}


def test_the_script_runs_and_is_on_policy(server: Server) -> None:
    rows = finish(start_script(server))
    assert [row.get("step") for row in rows] == [0, 1, 2, None]
    if server.exact:
        assert [row["unequal_logprob_bits"] for row in rows[:3]] == [0, 0, 0]


@pytest.fixture
def traces(fresh_server: FreshServer, tmp_path: Path) -> list[list[dict[str, object]]]:
    """The script's output on three fresh servers, of which two have the same seed."""
    printed = []
    for i, seed in enumerate((7, 7, 8)):
        fresh = fresh_server(tmp_path / str(i), seed)
        printed.append(finish(start_script(fresh)))
        fresh.stop()
    return printed


def test_an_unseeded_script_repeats_on_a_fresh_server_of_the_same_seed(traces: list[list[dict[str, object]]]) -> None:
    first, again, other = traces
    assert first == again
    assert first[0]["tokens"] != other[0]["tokens"]
    assert first[1]["trained"] != other[1]["trained"]
