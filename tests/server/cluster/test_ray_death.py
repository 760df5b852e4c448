"""A server whose own Ray dies says so, and ends with exit code 3; nothing hangs, and its state is whole."""

import importlib.util
import os
import signal
import threading
from pathlib import Path

import pytest

from running import HANG_S, Running
from tinsmith.engine.cluster import ray_guardian

pytestmark = [pytest.mark.whole, pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")]

PARTS = {"gcs_server": b"/gcs_server", "raylet": b"raylet/raylet", "agent": b"dashboard/agent.py"}


def _part(server: int, line: bytes) -> int:
    """The process of a server's Ray with this in its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            marked = ray_guardian.MARK.encode() in (folder / "environ").read_bytes()
            if marked and line in (folder / "cmdline").read_bytes() and _ancestor(int(folder.name), server):
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError(line)


def _ancestor(pid: int, wanted: int) -> bool:
    while pid > 1 and pid != wanted:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid == wanted


@pytest.mark.parametrize("part", PARTS)
def test_a_server_whose_ray_is_dead_says_so_and_ends(part: str, tmp_path: Path) -> None:
    server = Running(tmp_path / "state", "--workers", "1")
    try:
        model = server.model()
        body = {"model": "tinsmith/nano", "prompt": "a", "max_tokens": 64, "ignore_eos": True}
        assert server.http.post("/v1/completions", json=body).status_code == 200
        assert server.http.get("/api/v1/healthz").status_code == 200
        os.kill(_part(server.process.pid, PARTS[part]), signal.SIGKILL)
        statuses: list[int] = []
        while 503 not in statuses:  # answered until it is noticed, and with the reason for some seconds after
            threading.Event().wait(0.05)
            answer = server.http.post("/v1/completions", json=body)
            statuses.append(answer.status_code)
        assert set(statuses) <= {200, 503}
        assert "Ray's" in answer.json()["error"]["message"]
        health = server.http.get("/api/v1/healthz")
        assert (health.status_code, "Ray's" in health.json()["reason"]) == (503, True)
        assert "tinsmith_workers 0" in server.http.get("/metrics").text
        assert "tinsmith_ready 0" in server.http.get("/metrics").text
        assert server.process.wait(timeout=HANG_S) == 3
        assert "no worker is left" in server.log.read_text()
    finally:
        server.stop()
    again = Running(tmp_path / "state")
    try:
        assert again.http.get(f"/api/v1/training_runs/{model}").status_code == 200
    finally:
        again.stop()
