"""Custom losses through the official SDK: one request, the built-in losses' gradients, refusals by node."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tinker
    from tinker import types

from written_losses import WRITTEN

from running import HANG_S, KEY, NANO, Running

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

USER_ERRORS = (tinker.BadRequestError, tinker.RequestFailedError)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Running(tmp_path_factory.mktemp("server") / "state") as running:
        yield running
    gc.collect()


@pytest.fixture(scope="module")
def service(server: Running) -> tinker.ServiceClient:
    return tinker.ServiceClient(base_url=server.url, api_key=KEY)


def _client(service: tinker.ServiceClient) -> tinker.TrainingClient:
    made = service.create_lora_training_client(base_model=NANO, rank=4, seed=3)
    return made.result(HANG_S)


def _datums(**names: str) -> list[types.Datum]:
    """Some datums with a prompt; `names`: what an input is called, by what it is."""
    rng, datums = np.random.default_rng(0), list[types.Datum]()
    for length in (9, 24, 17):
        tokens = rng.integers(20, 120, length + 1)
        action = np.arange(length) >= 5
        columns = {
            "old": np.where(action, rng.normal(-5.0, 0.4, length), 0.0),
            "advantages": np.where(action, rng.normal(size=length), 0.0),
        }
        inputs = {
            names.get(name, name): types.TensorData.from_numpy(values.astype(np.float32))
            for name, values in columns.items()
        }
        target = types.TensorData.from_numpy(tokens[1:])
        datums.append(
            types.Datum(
                model_input=types.ModelInput.from_ints(tokens[:-1].tolist()),
                loss_fn_inputs={"target_tokens": target, **inputs},
            )
        )
    return datums


def _handle(service: tinker.ServiceClient, name: str) -> tinker.LossHandle:
    function, ranks = WRITTEN[name]
    return service.create_custom_loss(function, ranks).result(HANG_S)  # pyright: ignore[reportArgumentType]


def _trace(server: Running, client: tinker.TrainingClient) -> Any:
    return server.http.get(f"/api/v1/training_runs/{client.model_id}/trace").json()["steps"]


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo"])
def test_a_built_in_loss_written_by_the_user_trains_to_the_same_bits_in_one_request(
    server: Running, service: tinker.ServiceClient, name: str
) -> None:
    handle = _handle(service, name)
    assert handle.loss_id is not None
    built_in, custom = _client(service), _client(service)
    theirs = built_in.forward_backward(_datums(old="logprobs"), name).result(HANG_S)  # pyright: ignore[reportArgumentType]
    ours = custom.forward_backward_custom(_datums(), handle).result(HANG_S)
    assert ours.metrics["loss:sum"] == pytest.approx(theirs.metrics["loss:sum"], rel=1e-14)
    assert {key for key in ours.metrics if key != "loss:sum"} == set(
        WRITTEN[name][0](torch.ones(2), torch.ones(2), torch.ones(2))[1]
    )
    for one, two in zip(ours.loss_fn_outputs, theirs.loss_fn_outputs, strict=True):
        assert one["logprobs"].data == two["logprobs"].data
    for client in (built_in, custom):
        client.optim_step(types.AdamParams(learning_rate=1e-3)).result(HANG_S)
    (step,) = _trace(server, built_in)
    assert [step] == _trace(server, custom)
