"""Adapters beyond LoRA, chosen by the base model's name: each trains, samples what it trained, and goes on."""

import numpy as np
import pytest
import tinker
from sdk_cases import TIMEOUT_S, forward, prompt_of, same_step, sampler_logprobs, text_datum, train
from sdk_server import Server
from tinker import types

TEXT = "tin snips"
ADAM = types.AdamParams(learning_rate=0.003)
SUFFIXES = ("", ":dora", ":qlora", ":qdora", ":full")


@pytest.fixture(params=SUFFIXES, ids=lambda suffix: suffix or "lora")
def name(server: Server, request: pytest.FixtureRequest) -> str:
    """The base model's name with an adapter's."""
    if server.process is None and request.param:
        pytest.skip("a named server may serve LoRA only")
    return f"{server.model}{request.param}"


def test_an_adapter_by_name_trains_and_samples_as_one_model(
    server: Server, service: tinker.ServiceClient, name: str
) -> None:
    client = service.create_lora_training_client(name, seed=0).result(TIMEOUT_S)
    assert client.get_info().model_data.model_name == name
    losses = [train(client, [text_datum(TEXT)], ADAM).loss for _ in range(4)]
    assert losses[-1] < losses[0]
    sampler = client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
    trained = forward(client, [text_datum(TEXT)])[0]
    assert np.abs(trained - sampler_logprobs(sampler, TEXT)).max() <= (0 if server.exact else 1e-5)


def test_an_adapter_by_name_goes_on_from_its_checkpoints(
    service: tinker.ServiceClient, server: Server, name: str
) -> None:
    wanted = types.SamplingParams(max_tokens=12, seed=1, stop=[])
    client = service.create_lora_training_client(name, seed=0).result(TIMEOUT_S)
    train(client, [text_datum(TEXT)], ADAM)
    path = client.save_state("one").result(TIMEOUT_S).path
    sampler_path = client.save_weights_for_sampler("one").result(TIMEOUT_S).path
    live = client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
    stored = service.create_sampling_client(model_path=sampler_path).result(TIMEOUT_S)
    drawn = [s.sample(prompt_of(TEXT), 2, wanted).result(TIMEOUT_S) for s in (live, stored)]
    assert [s.tokens for s in drawn[0].sequences] == [s.tokens for s in drawn[1].sequences]
    expected = train(client, [text_datum(TEXT)], ADAM)
    resumed = service.create_training_client_from_state_with_optimizer(path).result(TIMEOUT_S)
    assert resumed.get_info().model_data.model_name == name
    assert same_step(server, expected, train(resumed, [text_datum(TEXT)], ADAM))
