"""Requests that are given up, and weights that are followed."""

import base64
import json

import httpx
import numpy as np
import pytest
import tinker
from sdk_cases import TIMEOUT_S, lora, prompt_of, text_datum, train
from sdk_server import Server
from tinker import types

ADAM = types.AdamParams(learning_rate=0.05)
LONG = {"max_tokens": 8000, "stop": []}


def post(server: Server, path: str, body: dict[str, object]) -> httpx.Response:
    return httpx.post(f"{server.url}/api/v1/{path}", json=body, headers={"x-api-key": server.key}, timeout=TIMEOUT_S)


def asked(server: Server) -> dict[str, object]:
    """A sampling request that would take long."""
    session = post(server, "create_session", {}).json()["session_id"]
    made = post(
        server,
        "create_sampling_session",
        {"session_id": session, "sampling_session_seq_id": 0, "base_model": server.model},
    ).json()
    return {
        "sampling_session_id": made["sampling_session_id"],
        "seq_id": 0,
        "num_samples": 4,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2, 3]}]},
        "sampling_params": LONG,
    }


def test_the_client_is_told_that_it_may_cancel(server: Server) -> None:
    assert post(server, "client/dynamic_config", {}).json()["sample_cancel_enabled"] is True


def test_a_cancelled_request_is_settled_as_that(server: Server) -> None:
    request = asked(server)
    sent = post(server, "asample", request).json()["request_id"]
    for _ in range(2):  # a second time is no matter
        assert post(server, "cancel_future", {"request_id": sent}).status_code == 200
    told = post(server, "retrieve_future", {"request_id": sent}).json()
    assert told["category"] == "user"
    assert "cancelled" in told["error"]
    again = {**request, "seq_id": 1, "sampling_params": {"max_tokens": 2}}
    next_id = post(server, "asample", again).json()["request_id"]
    assert post(server, "retrieve_future", {"request_id": next_id}).status_code == 200


@pytest.mark.parametrize("request_id", ["nobody:0:sample", "s000001:train:0:0:create_model"])
def test_only_sampling_requests_are_cancelled(server: Server, request_id: str) -> None:
    answer = post(server, "cancel_future", {"request_id": request_id})
    assert answer.status_code == 400
    assert "request_id" in answer.json()["error"]


def test_copies_of_a_client_get_numbers_of_their_own(server: Server, service: tinker.ServiceClient) -> None:
    client = service.create_sampling_client(base_model=server.model).result(TIMEOUT_S)
    handle = client.get_sampler_handle()
    copies = [tinker.SamplingClient.from_sampler_handle(handle, api_key=server.key) for _ in range(2)]
    for one in (client, *copies):
        drawn = one.sample(prompt_of("a"), 1, types.SamplingParams(max_tokens=2)).result(TIMEOUT_S)
        assert len(drawn.sequences) == 1
    session = json.loads(base64.urlsafe_b64decode(handle))["sampling_session_id"]
    joined = post(server, "join_sampling_session", {"sampling_session_id": session}).json()
    assert joined["client_counter"] == 3


def test_clients_that_follow_a_model_sample_from_its_latest_saved_weights(
    server: Server, service: tinker.ServiceClient
) -> None:
    trainer = lora(service, server.model)

    def save(kind: types.SamplingClientKind) -> tinker.SamplingClient:
        return trainer.save_weights_and_get_sampling_client(kind=kind).result(TIMEOUT_S)

    def scored(client: tinker.SamplingClient) -> bytes:
        logprobs = client.compute_logprobs(prompt_of("copper")).result(TIMEOUT_S)
        return np.array(logprobs[1:], np.float32).tobytes()

    first, still = save("inflight"), save("snapshot")
    before = scored(first)
    train(trainer, [text_datum("copper and brass")], ADAM)
    assert scored(first) == scored(still) == before  # trained, and not saved yet
    second, fixed = save("inflight"), save("snapshot")
    after = scored(fixed)
    assert after != before
    assert scored(first) == scored(second) == after
    assert scored(still) == before


def test_weights_that_are_followed_have_no_name(server: Server, service: tinker.ServiceClient) -> None:
    trainer = lora(service, server.model)
    model_id = trainer.get_info().model_id
    answer = post(
        server, "save_weights_for_sampler", {"model_id": model_id, "seq_id": 1, "path": "x", "kind": "inflight"}
    )
    assert answer.status_code == 400
    assert "kind" in answer.json()["error"]
