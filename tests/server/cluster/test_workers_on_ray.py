"""A server whose works are done by Ray's processes: the bits of one process, also when one of them is killed."""

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
import tinker
from tinker import types

from tinsmith.lab.service.connect import Connection, EmbeddedSettings, open_connection
from tinsmith.lab.service.facts import ask

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray")

NAME = "tinsmith/nano"


def _opened(state: Path, workers: int) -> Connection:
    settings = EmbeddedSettings(models={NAME: NAME}, workers=workers, threads=2, state=state)
    return open_connection(None, settings)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A server with two workers."""
    connection = _opened(tmp_path_factory.mktemp("state"), 2)
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
    """Why workers are no longer there."""
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
    """What a short training with samples in between shows; one worker is killed while works are under way."""
    client = connection.client.create_lora_training_client(NAME, rank=4, seed=3).result()
    shown: list[object] = []
    for step in range(3):
        asked = [client.forward_backward(_datums(10 * step + i), "cross_entropy") for i in range(3)]
        if kill and step == 1:
            os.kill(next(w.pid for w in _workers(connection) if w.alive), signal.SIGKILL)
        for one in asked:
            result = one.result()
            shown += [output["logprobs"].data for output in result.loss_fn_outputs]
        shown.append(client.optim_step(tinker.AdamParams(learning_rate=0.01)).result().metrics)
        sampler = client.save_weights_and_get_sampling_client().result()
        prompt = types.ModelInput.from_ints(list(range(5, 25)))
        params = types.SamplingParams(max_tokens=12, seed=step)
        answer = sampler.sample(prompt, num_samples=4, sampling_params=params).result()
        shown += [(sequence.tokens, sequence.logprobs) for sequence in answer.sequences]
    return shown


def test_a_killed_worker_changes_no_bit(shared: Connection, tmp_path: Path) -> None:
    alone = _opened(tmp_path, 0)
    try:
        expected = _trained(alone, kill=False)
    finally:
        alone.close()
    assert _trained(shared, kill=False) == expected
    assert _trained(shared, kill=True) == expected
    assert any(_lost(shared) for _ in range(5000)), "looked for as long as it may take"
    assert len(_lost(shared)) == 1


def _weighted(logprobs: Any, weights: Any) -> Any:
    return -((logprobs.exp() + logprobs) * weights).sum(), {"custom/weight:mean": weights.sum()}


def test_workers_compute_custom_losses(shared: Connection, tmp_path: Path) -> None:
    def trained(connection: Connection) -> list[object]:
        client = connection.client.create_lora_training_client(NAME, rank=4, seed=3).result()
        loss = connection.client.create_custom_loss(_weighted, {"logprobs": 1, "weights": 1}).result()
        result = client.forward_backward_custom(_datums(1), loss).result()
        shown: list[object] = [output["logprobs"].data for output in result.loss_fn_outputs]
        return [*shown, client.optim_step(tinker.AdamParams(learning_rate=0.01)).result().metrics]

    alone = _opened(tmp_path, 0)
    try:
        expected = trained(alone)
    finally:
        alone.close()
    assert trained(shared) == expected


def test_figures_of_whole_distributions_are_those_of_one_process(shared: Connection, tmp_path: Path) -> None:
    body = {"model": NAME, "sequences": [[5 + i, 6, 7, 8 + i] for i in range(6)]}
    alone = _opened(tmp_path, 0)
    try:
        expected = ask(alone, "POST", "tinsmith/spread", body)
    finally:
        alone.close()
    assert expected is not None
    assert ask(shared, "POST", "tinsmith/spread", body) == expected


def test_workers_are_counted(shared: Connection) -> None:
    told = httpx.get(f"{shared.base_url}/metrics", headers={"X-API-Key": shared.key or ""}).text.splitlines()
    done = [line for line in told if line.startswith("tinsmith_worker_works_done_total{")]
    assert done, told
    assert any(line.startswith("tinsmith_workers ") for line in told)


def test_workers_are_as_nice_as_the_server(shared: Connection) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    workers = [worker.pid for worker in _workers(shared) if worker.alive]
    assert {os.getpriority(os.PRIO_PROCESS, pid) for pid in workers} == {own}


def test_a_mistake_is_told_by_name(shared: Connection) -> None:
    client = shared.client.create_lora_training_client(NAME, rank=4, seed=3).result()
    tokens = types.ModelInput.from_ints([5, 6, 7])
    with pytest.raises(tinker.TinkerError, match="target_tokens"):
        client.forward_backward([types.Datum(model_input=tokens, loss_fn_inputs={})], "cross_entropy").result()
