"""A Ray that is started here: who may reach it, what of it is left behind, and what is said where there is none."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        (mark,) = told["marks"]
        assert len(ray_guardian.marked(mark)) > 3
        process.kill()
        # The guardian writes to the same pipe: this ends when it has ended.
        process.stdout.read()
    assert (told["modes"], Path(told["folder"]).parent.exists()) == ([0o700], False)
    assert told["address"].startswith("127.0.0.1:")
    assert (told["cores"], told["own_marks"], told["token_file"]) == (1, [], False)
    assert ray_guardian.marked(mark) == []
    assert not Path(told["folder"]).exists()
