"""The start of a Ray that cannot come up any more: the process ends, and says why."""

import subprocess
import sys

import pytest

from running import HANG_S

WAITS = """
import shutil, subprocess, sys, threading
from tinsmith.engine.cluster import ray_start

name, seconds, folder = sys.argv[1], float(sys.argv[2]), sys.argv[3]
program = shutil.copy(shutil.which("sleep"), f"{folder}/{name}")
with ray_start.watched_start(seconds):
    part = subprocess.Popen([program, "600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(part.pid, flush=True)
    try:
        sys.stdin.readline() and part.kill()
        threading.Event().wait()  # as Ray waits
    finally:
        part.kill()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system tells of a process's children on Linux")


def _ended(name: str, seconds: float, folder: object, line: str) -> tuple[int, str]:
    command = [sys.executable, "-c", WAITS, name, str(seconds), str(folder)]
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=HANG_S, check=False)
    subprocess.run(["kill", done.stdout.strip()], check=False, capture_output=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize("part", ["gcs_server", "raylet"])
def test_a_part_that_ends_meanwhile_ends_the_process(part: str, tmp_path: object) -> None:
    code, said = _ended(part, 600, tmp_path, "kill it\n")
    assert code == 3
    assert f"Ray's {part} ended" in said


def test_a_start_that_takes_too_long_ends_the_process(tmp_path: object) -> None:
    code, said = _ended("raylet", 0.5, tmp_path, "")
    assert code == 3
    assert "0.5 s" in said
