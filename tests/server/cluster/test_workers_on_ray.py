"""A server whose works are done by Ray's processes: the bits of one process, also when one of them is killed."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
import tinker
from tinker import types

from running import HANG_S, Running
from tinsmith.engine.cluster import ray_guardian
from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.lab.service.facts import ask
from tinsmith.server.cluster.launch import ClusterSettings
from tinsmith.types.errors import ConfigError
from warm import CERTIFICATES

NAME = "tinsmith/nano"
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")


def _opened(state: Path, workers: int) -> Connection:
    settings = EmbeddedSettings(models={NAME: NAME}, workers=workers, threads=2, state=state)
    return open_connection(None, settings)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A server with two workers."""
    connection = _opened(tmp_path_factory.mktemp("state"), 2)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A server without workers."""
    connection = _opened(tmp_path_factory.mktemp("state"), 0)
    yield connection
    connection.close()


class _Worker(msgspec.Struct):
    name: str
    pid: int
    alive: bool
    lost: str | None


class _Told(msgspec.Struct):
    workers: list[_Worker]


def _workers(connection: Connection) -> list[_Worker]:
    answer = httpx.get(f"{connection.base_url}/api/v1/tinsmith/workers", headers={"X-API-Key": connection.key or ""})
    return msgspec.json.decode(answer.content, type=_Told).workers


def _lost(connection: Connection) -> list[str]:
    """Return why workers are gone."""
    return [worker.lost or "" for worker in _workers(connection) if not worker.alive]


def _datums(seed: int) -> list[types.Datum]:
    numbers = np.random.default_rng(seed)
    stems = [[5 + i, *numbers.integers(5, 90, 20).tolist()] for i in range(4)]
    datums: list[types.Datum] = []
    for i in range(12):
        tokens = [*stems[i % 4], *numbers.integers(5, 90, 8 + i).tolist()]
        weights = numbers.normal(size=len(tokens)).tolist()
        datums.append(
            types.Datum(
                model_input=types.ModelInput.from_ints(tokens),
                loss_fn_inputs={
                    "target_tokens": types.TensorData(data=[*tokens[1:], 0], dtype="int64", shape=[len(tokens)]),
                    "weights": types.TensorData(data=weights, dtype="float32", shape=[len(tokens)]),
                },
            )
        )
    return datums


def _trained(connection: Connection, kill: bool) -> list[object]:
    """Return a short training's figures and samples; `kill` ends a worker while works are under way."""
    client = connection.client.create_lora_training_client(NAME, rank=4, seed=3).result()
    shown: list[object] = []
    for step in range(3):
        requests = [client.forward_backward(_datums(10 * step + i), "cross_entropy") for i in range(3)]
        if kill and step == 1:
            os.kill(next(w.pid for w in _workers(connection) if w.alive), signal.SIGKILL)
        for one in requests:
            result = one.result()
            shown += [output["logprobs"].data for output in result.loss_fn_outputs]
        shown.append(client.optim_step(tinker.AdamParams(learning_rate=0.01)).result().metrics)
        sampler = client.save_weights_and_get_sampling_client().result()
        prompt = types.ModelInput.from_ints(list(range(5, 25)))
        params = types.SamplingParams(max_tokens=12, seed=step)
        answer = sampler.sample(prompt, num_samples=4, sampling_params=params).result()
        shown += [(sequence.tokens, sequence.logprobs) for sequence in answer.sequences]
    return shown


@needs_ray
def test_a_killed_worker_changes_no_bit(shared: Connection, alone: Connection) -> None:
    expected = _trained(alone, kill=False)
    assert _trained(shared, kill=False) == expected
    assert _trained(shared, kill=True) == expected
    assert any(_lost(shared) for _ in range(5000)), "looked for as long as it may take"
    assert len(_lost(shared)) == 1


def _weighted(logprobs: Any, weights: Any) -> Any:
    return -((logprobs.exp() + logprobs) * weights).sum(), {"custom/weight:mean": weights.sum()}


@needs_ray
def test_workers_compute_custom_losses(shared: Connection, alone: Connection) -> None:
    def trained(connection: Connection) -> list[object]:
        client = connection.client.create_lora_training_client(NAME, rank=4, seed=3).result()
        loss = connection.client.create_custom_loss(_weighted, {"logprobs": 1, "weights": 1}).result()
        result = client.forward_backward_custom(_datums(1), loss).result()
        shown: list[object] = [output["logprobs"].data for output in result.loss_fn_outputs]
        return [*shown, client.optim_step(tinker.AdamParams(learning_rate=0.01)).result().metrics]

    expected = trained(alone)
    assert trained(shared) == expected


@needs_ray
def test_figures_of_whole_distributions_are_those_of_one_process(shared: Connection, alone: Connection) -> None:
    body = {"model": NAME, "sequences": [[5 + i, 6, 7, 8 + i] for i in range(6)]}
    expected = ask(alone, "POST", "tinsmith/spread", body)
    assert expected is not None
    assert ask(shared, "POST", "tinsmith/spread", body) == expected


@needs_ray
def test_workers_are_counted(shared: Connection) -> None:
    lines = httpx.get(f"{shared.base_url}/metrics", headers={"X-API-Key": shared.key or ""}).text.splitlines()
    done = [line for line in lines if line.startswith("tinsmith_worker_works_done_total{")]
    assert done, lines
    assert any(line.startswith("tinsmith_workers ") for line in lines)


@needs_ray
def test_workers_are_as_nice_as_the_server(shared: Connection) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    workers = [worker.pid for worker in _workers(shared) if worker.alive]
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in workers} == {own}


@needs_ray
def test_a_mistake_is_told_by_name(shared: Connection) -> None:
    client = shared.client.create_lora_training_client(NAME, rank=4, seed=3).result()
    tokens = types.ModelInput.from_ints([5, 6, 7])
    with pytest.raises(tinker.TinkerError, match="target_tokens"):
        client.forward_backward([types.Datum(model_input=tokens, loss_fn_inputs={})], "cross_entropy").result()


PARTS = {"gcs_server": b"/gcs_server", "agent": b"dashboard/agent.py"}
"""Watched as processes are that Ray's start told of, and as children of one, the raylet."""


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


@pytest.mark.whole
@needs_ray
@pytest.mark.parametrize("part", PARTS)
def test_a_server_whose_ray_is_dead_says_so_and_ends(part: str, tmp_path: Path) -> None:
    server = Running(tmp_path / "state", "--workers", "1")
    try:
        model = server.model()
        body = {"model": "tinsmith/nano", "prompt": "a", "max_tokens": 2, "ignore_eos": True}
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


COURSES = Path(__file__).parents[2] / "engine" / "cluster"

COMPUTED = """
import json, os, signal, sys
from hashlib import sha256
from pathlib import Path
from course import NAME, course
from tinsmith.engine.checks.certificate_store import CertificateStore
from tinsmith.engine.cluster import ray_guardian
from tinsmith.engine.engine import Engine
from tinsmith.server.cluster.launch import ClusterSettings, launch
from tinsmith.server.cluster.settings import WorkerSettings
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.home import certificates_folder

def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # Ray ends processes that have nothing to do
        return b""


alone = Engine({NAME: NAME}, certificate_store=CertificateStore(certificates_folder()))
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
@needs_ray
def test_a_worker_of_two_processes_has_the_bits_of_one(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    CERTIFICATES.mkdir(exist_ok=True)
    (tmp_path / "home" / "certificates").symlink_to(CERTIFICATES)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "TINSMITH_HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(COURSES),
    }
    done = subprocess.run([sys.executable, "-c", COMPUTED], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    messages = json.loads(done.stdout.splitlines()[-1])
    assert messages["equal"] == [True, True]
    assert messages["workers"] == [["worker-0", False], ["worker-1", True]]
