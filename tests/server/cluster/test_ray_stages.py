"""Workers of two processes on a Ray of this machine: the bits of one process, and a lost stage costs no bit either."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinsmith.server.cluster.launch import ClusterSettings
from tinsmith.types.errors import ConfigError

COURSES = Path(__file__).parents[2] / "engine" / "cluster"

COMPUTED = """
import json, os, signal, sys
from hashlib import sha256
from pathlib import Path
from course import NAME, course
from tinsmith.engine.cluster import ray_guardian
from tinsmith.engine.engine import Engine
from tinsmith.server.cluster.launch import ClusterSettings, launch
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.types.adapters import AdapterKind

def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # Ray ends processes that have nothing to do
        return b""


alone = Engine({NAME: NAME})
settings = WorkerSettings(models={NAME: NAME}, seed=0, shards=2)
engine, workers = launch(ClusterSettings(workers=2, shards=2), settings, lambda why: None)
try:
    equal = [course(engine, kind, steps=1) == course(alone, kind, steps=1) for kind in [AdapterKind.LORA]]
    folder = Path(workers.cluster._guardian.args[-1])
    mark = ray_guardian.MARK + folder.name.rpartition("-")[2].upper()
    (stage,) = [pid for pid in ray_guardian.marked(mark) if command(pid).startswith(b"ray::RayStage")]
    expected = course(alone, AdapterKind.QDORA, steps=1)
    os.kill(stage, signal.SIGKILL)
    equal.append(course(engine, AdapterKind.QDORA, steps=1) == expected)
    told = [[each.name, each.lost is None] for each in workers.dispatcher.workers]
finally:
    workers.close()
print(json.dumps({"equal": equal, "workers": told}))
"""


@pytest.mark.parametrize(("workers", "shards"), [(0, 2), (2, 3), (3, 2), (4, 3)])
def test_shards_that_do_not_share_the_workers_are_refused(workers: int, shards: int) -> None:
    with pytest.raises(ConfigError) as caught:
        ClusterSettings(workers=workers, shards=shards)
    assert (caught.value.field, caught.value.value) == ("--shards", shards)
    assert f"--workers={workers}" in (caught.value.allowed or "")


@pytest.mark.whole
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")
def test_a_worker_of_two_processes_has_the_bits_of_one(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "TINSMITH_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(COURSES),
    }
    done = subprocess.run([sys.executable, "-c", COMPUTED], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["equal"] == [True, True]
    assert told["workers"] == [["worker-0", False], ["worker-1", True]]
