"""One script, any server: it imports tinker only, and without a seed it repeats exactly (checks 8, 15, 16)."""

import ast
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from sdk_server import FreshServer, Server

from warm import SCRIPT as WARM

SCRIPT = Path(__file__).with_name("hosted_script.py")


@pytest.fixture(scope="module")
def printed(server: Server) -> list[dict[str, object]]:
    """Output of a process of the script's own, with nothing but the server's address and key changed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [*WARM, str(SCRIPT), server.model],
        env={**environment, "TINKER_BASE_URL": server.url, "TINKER_API_KEY": server.key},
        cwd=SCRIPT.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_script_imports_tinker_only() -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported == {"json", "sys", "tinker"}


def test_the_script_runs_and_is_on_policy(server: Server, printed: list[dict[str, object]]) -> None:
    assert [row.get("step") for row in printed] == [0, 1, 2, None]
    if server.exact:
        assert [row["unequal_logprob_bits"] for row in printed[:3]] == [0, 0, 0]


def test_an_unseeded_script_repeats_on_a_fresh_server_of_the_same_seed(
    fresh_server: FreshServer,
    printed: list[dict[str, object]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    traces: list[list[dict[str, object]]] = []
    for name in ("first", "again"):
        fresh = fresh_server(tmp_path / name, 7)
        monkeypatch.setenv("TINKER_BASE_URL", fresh.url)
        monkeypatch.setenv("TINKER_API_KEY", fresh.key)
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), fresh.model])
        capsys.readouterr()
        runpy.run_path(str(SCRIPT), run_name="__main__")
        traces.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
        fresh.stop()
    first, again = traces
    assert first == again
    assert first[0]["tokens"] != printed[0]["tokens"]
    assert first[1]["trained"] != printed[1]["trained"]
