"""A Ray that is started here: who may reach it, how it ends, and what is said where there is none."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from running import HANG_S
from tinsmith.engine.cluster import ray_guardian
from tinsmith.engine.cluster.ray_runtime import join, start_local
from tinsmith.types.errors import ConfigError

STARTED = """
import json, os, sys
from pathlib import Path
from tinsmith.engine.cluster.ray_runtime import start_local

token_file = Path.home() / ".ray" / "auth_token"
cluster = start_local(1)
import ray
(node,) = cluster.nodes()
task = ray.remote(lambda: [name for name in os.environ if name.startswith("TINSMITH_RAY_")])
print(json.dumps({
    "address": ray.get_runtime_context().gcs_address,
    "cores": node.cores,
    "marks": ray.get(task.remote()),
    "own_marks": [name for name in os.environ if name.startswith("TINSMITH_RAY_")],
    "token_file": token_file.exists(),
    "folder": ray._private.worker._global_node.get_temp_dir_path(),
    "modes": [Path(ray._private.worker._global_node.get_temp_dir_path()).parent.stat().st_mode & 0o777],
}), flush=True)
sys.stdin.read()
"""


def test_without_ray_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in ("AUTH_MODE", "AUTH_TOKEN", "ENABLE_WINDOWS_OR_OSX_CLUSTER", "USAGE_STATS_ENABLED"):
        monkeypatch.setenv(f"RAY_{name}", "")
    with pytest.raises(ConfigError) as caught:
        start_local(1)
    assert caught.value.fix == 'pip install "tinsmith[ray]"'


def test_where_left_processes_cannot_be_found_no_ray_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ConfigError, match="Linux") as caught:
        start_local(1)
    assert (caught.value.field, caught.value.value) == ("ray", "local")


@pytest.mark.parametrize("address", ["", "here", "ray://host:10001", "host:", ":6379", "host:port"])
def test_what_is_no_address_is_refused_before_ray_is_asked(address: str) -> None:
    with pytest.raises(ConfigError) as caught:
        join(address)
    assert (caught.value.field, caught.value.allowed) == ("ray", "HOST:PORT, auto")


def test_an_address_where_nothing_listens_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError) as caught:
            join(address)
    assert (caught.value.field, caught.value.value) == ("ray", address)


@pytest.mark.whole
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_a_killed_process_leaves_nothing_of_its_ray(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", STARTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        lines = json.loads(process.stdout.readline())
        (mark,) = lines["marks"]
        assert len(ray_guardian.marked(mark)) > 3
        process.kill()
        # The guardian writes to the same pipe: this ends when it has ended.
        process.stdout.read()
    assert (lines["modes"], Path(lines["folder"]).parent.exists()) == ([0o700], False)
    assert lines["address"].startswith("127.0.0.1:")
    assert (lines["cores"], lines["own_marks"], lines["token_file"]) == (1, [], False)
    assert ray_guardian.marked(mark) == []
    assert not Path(lines["folder"]).exists()


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


@pytest.mark.skipif(sys.platform != "linux", reason="the system tells of a process's children on Linux")
@pytest.mark.parametrize(
    ("part", "seconds", "line", "says"),
    [
        ("gcs_server", 600, "kill it\n", "Ray's gcs_server ended"),
        ("raylet", 600, "kill it\n", "Ray's raylet ended"),
        ("raylet", 0.5, "", "0.5 s"),
    ],
)
def test_a_part_that_ends_meanwhile_or_a_start_that_takes_too_long_ends_the_process(
    part: str, seconds: float, line: str, says: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WAITS, part, str(seconds), str(tmp_path)]
    done = subprocess.run(command, input=line, capture_output=True, text=True, timeout=HANG_S, check=False)
    subprocess.run(["kill", done.stdout.strip()], check=False, capture_output=True)
    assert done.returncode == 3
    assert says in done.stderr


MARK = "TINSMITH_RAY_TEST"
WAITING = "import sys; print('there', flush=True); sys.stdin.read()"


def _waiting(*marks: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **dict.fromkeys(marks, "1")}
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    process.stdout.readline()
    return process


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_only_what_bears_the_mark_is_ended_when_its_first_process_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "ray"
    (folder / "session").mkdir(parents=True)
    of_ray, nested = _waiting(MARK), _waiting(MARK, f"{MARK}_OTHER")
    others = [_waiting(), _waiting(f"{MARK}_OTHER")]
    try:
        assert set(ray_guardian.marked(MARK)) == {of_ray.pid, nested.pid}
        guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", ray_guardian.__file__, MARK, str(folder)], stdin=subprocess.PIPE
        )
        guardian.stdin.close()
        assert [of_ray.wait(), nested.wait()] == [-9, -9]
        assert guardian.wait() == 0
        assert [other.poll() for other in others] == [None, None]
        assert not folder.exists()
    finally:
        for process in (of_ray, nested, *others):
            process.communicate()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_a_process_that_is_marked_itself_does_not_end_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    process = _waiting(MARK)
    monkeypatch.setattr(os, "getpid", lambda: process.pid)
    assert ray_guardian.marked(MARK) == []
    process.communicate()
