"""A user's mistake: quick, in the SDK's error classes, with the numbers; and the client lives on (checks 9, 10)."""

import base64
import json
from collections.abc import Mapping

import httpx
import numpy as np
import pytest
import tinker
from sdk_cases import TIMEOUT_S, datum, forward, lora, prompt_of, refusal, same, text_datum, tokens_of, train
from sdk_server import VOCAB, Server
from tinker import types

TEXT = text_datum("a rivet holds")
ADAM = types.AdamParams(learning_rate=0.01)
Q, A = [-1.0] * 3, [1.0] * 3


@pytest.fixture(scope="module")
def trainer(server: Server, service: tinker.ServiceClient) -> tinker.TrainingClient:
    return lora(service, server.model)


def long_prompt(count: int) -> types.ModelInput:
    return types.ModelInput.from_ints([65 + i % 26 for i in range(count)])


def test_prompt_and_completion_beyond_the_context(sampler: tinker.SamplingClient, context: int) -> None:
    wanted = types.SamplingParams(max_tokens=context)
    with pytest.raises(tinker.BadRequestError) as caught:
        sampler.sample(prompt_of("twelve bytes"), 1, wanted).result(TIMEOUT_S)
    message = f"{caught.value.message} {caught.value.body}"
    assert str(context) in message
    assert "12" in message.replace(str(context), "")


def test_a_prompt_beyond_the_context(sampler: tinker.SamplingClient, context: int) -> None:
    wanted = types.SamplingParams(max_tokens=1)
    for message in (
        refusal(lambda: sampler.sample(long_prompt(context + 77), 1, wanted)),
        refusal(lambda: sampler.compute_logprobs(long_prompt(context + 77))),
    ):
        assert str(context) in message
        assert str(context + 77) in message


def test_a_datum_beyond_the_context(trainer: tinker.TrainingClient, context: int) -> None:
    before = forward(trainer, [TEXT])
    tokens = long_prompt(context + 50).to_ints()
    message = refusal(lambda: trainer.forward_backward([datum(tokens)], "cross_entropy"))
    assert str(context) in message
    assert str(context + 49) in message
    assert forward(trainer, [TEXT])[0].tolist() == before[0].tolist()


@pytest.mark.parametrize("suffix", ["", ":dora"])
def test_an_unknown_model_is_answered_with_the_served_ones(
    server: Server, service: tinker.ServiceClient, suffix: str
) -> None:
    name = f"no/such{suffix}"
    assert server.model in refusal(lambda: service.create_lora_training_client(base_model=name))
    assert server.model in refusal(lambda: service.create_sampling_client(base_model=name))


def test_an_unknown_adapter_is_refused(server: Server, service: tinker.ServiceClient) -> None:
    refusal(lambda: service.create_lora_training_client(base_model=f"{server.model}:nope"))


@pytest.mark.parametrize("rank", [0, -1])
def test_a_rank_below_one(server: Server, service: tinker.ServiceClient, rank: int) -> None:
    message = refusal(lambda: service.create_lora_training_client(server.model, rank=rank))
    assert "rank" in message


def test_an_optimizer_that_is_not_served(server: Server, service: tinker.ServiceClient) -> None:
    if server.process is None:
        pytest.skip("a named server may have it")
    dimuon = types.DimuonOptimizerConfig()
    message = refusal(lambda: service.create_lora_training_client(server.model, rank=4, optimizer=dimuon))
    assert "dimuon" in message


BAD_BATCHES: Mapping[str, tuple[str, types.Datum, Mapping[str, float | str], str]] = {
    "stable_reinforce": ("stable_reinforce", TEXT, {}, "stable_reinforce"),
    "unknown loss": ("nope", TEXT, {}, "nope"),
    "no logprobs": ("importance_sampling", datum(tokens_of("abcd"), {"advantages": A}), {}, "logprobs"),
    "no advantages": ("ppo", datum(tokens_of("abcd"), {"logprobs": Q}), {}, "advantages"),
    "no mask": ("gspo", datum(tokens_of("abcd"), {"logprobs": Q, "advantages": A}), {}, "sequence_ratio_mask"),
    "no targets": (
        "cross_entropy",
        types.Datum(model_input=prompt_of("abc"), loss_fn_inputs={"weights": A}),
        {},
        "target_tokens",
    ),
    "another length": ("cross_entropy", datum(tokens_of("abcd"), {"weights": [1.0]}), {}, "weights"),
    "not finite": ("cross_entropy", datum(tokens_of("abcd"), {"weights": [1.0, float("nan"), 1.0]}), {}, "weights"),
    "a token too high": ("cross_entropy", datum([65, VOCAB, 66]), {}, str(VOCAB)),
    "a target too high": ("cross_entropy", datum([65, 66, VOCAB + 7]), {}, str(VOCAB + 7)),
    "a negative token": ("cross_entropy", datum([65, -3, 66]), {}, "-3"),
    "an unknown setting": (
        "ppo",
        datum(tokens_of("abcd"), {"logprobs": Q, "advantages": A}),
        {"clip_ratio": 0.2},
        "clip_ratio",
    ),
    "thresholds crossed": (
        "ppo",
        datum(tokens_of("abcd"), {"logprobs": Q, "advantages": A}),
        {"clip_low_threshold": 1.2, "clip_high_threshold": 0.8},
        "clip_high_threshold",
    ),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_the_client_lives_on(
    server: Server, trainer: tinker.TrainingClient, case: str
) -> None:
    loss_fn, bad, config, named = BAD_BATCHES[case]
    if server.process is None and "high" in case:
        pytest.skip("a named server may have a larger vocabulary")
    before = forward(trainer, [TEXT])
    for call in (trainer.forward, trainer.forward_backward):
        assert named in refusal(lambda call=call: call([TEXT, bad], loss_fn, config))  # type: ignore[arg-type]
    assert same(server, before, forward(trainer, [TEXT]))


def test_requests_behind_a_refused_one_are_served(server: Server, service: tinker.ServiceClient) -> None:
    """The refused request keeps its number; its gradient is none."""
    plain, disturbed = lora(service, server.model), lora(service, server.model)
    expected = train(plain, [TEXT], ADAM)
    bad = disturbed.forward_backward([TEXT, datum([65, VOCAB + 9, 66])], "cross_entropy")
    lines = train(disturbed, [TEXT], ADAM)
    assert str(VOCAB + 9) in refusal(lambda: bad)
    assert lines.grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)
    assert same(server, forward(plain, [TEXT]), forward(disturbed, [TEXT]))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"learning_rate": -0.1}, "learning_rate"),
        ({"beta1": 1.5}, "beta1"),
        ({"grad_clip_norm": -1.0}, "grad_clip_norm"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_optimizer_setting_out_of_range(
    server: Server, service: tinker.ServiceClient, change: dict[str, float], named: str
) -> None:
    client = lora(service, server.model)
    client.forward_backward([TEXT], "cross_entropy").result(TIMEOUT_S)
    assert named in refusal(lambda: client.optim_step(ADAM.model_copy(update=change)))
    assert client.optim_step(ADAM).result(TIMEOUT_S) is not None


@pytest.mark.parametrize(
    ("change", "num_samples", "named"),
    [
        ({"temperature": -1.0}, 1, "temperature"),
        ({"top_p": 0.0}, 1, "top_p"),
        ({"top_p": 1.5}, 1, "top_p"),
        ({"top_k": -7}, 1, "top_k"),
        ({"max_tokens": 0}, 1, "max_tokens"),
        ({}, 0, "num_samples"),
        ({"stop": [""]}, 1, "stop"),
    ],
)
def test_sampling_parameters_out_of_range(
    sampler: tinker.SamplingClient, change: dict[str, object], num_samples: int, named: str
) -> None:
    wanted = types.SamplingParams.model_validate({"max_tokens": 4, **change})
    message = refusal(lambda: sampler.sample(prompt_of("tin"), num_samples, wanted))
    assert named in message
    usable = sampler.sample(prompt_of("tin"), 1, types.SamplingParams(max_tokens=2))
    assert usable.result(TIMEOUT_S).sequences


@pytest.mark.parametrize("tokens", [[], [65, VOCAB], [65, -1]], ids=["none", "high", "negative"])
def test_prompt_tokens_out_of_range(server: Server, sampler: tinker.SamplingClient, tokens: list[int]) -> None:
    if server.process is None and VOCAB in tokens:
        pytest.skip("a named server may have a larger vocabulary")
    wanted = types.SamplingParams(max_tokens=4)
    refusal(lambda: sampler.sample(types.ModelInput.from_ints(tokens), 1, wanted))


@pytest.mark.parametrize(
    "path", ["tinker://nope:train:0/weights/none", "tinker://nope", "tinker://../weights/../../etc"]
)
def test_an_unknown_path(service: tinker.ServiceClient, path: str) -> None:
    refusal(lambda: service.create_training_client_from_state(path))
    refusal(lambda: service.create_training_client_from_state_with_optimizer(path))
    refusal(lambda: service.create_sampling_client(model_path=path))


def test_a_sampler_path_is_not_a_training_state(service: tinker.ServiceClient, trainer: tinker.TrainingClient) -> None:
    path = trainer.save_weights_for_sampler("not-a-state").result(TIMEOUT_S).path
    refusal(lambda: service.create_training_client_from_state_with_optimizer(path))


FASTER = types.AdamParams(learning_rate=0.05)
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
    messages = post(server, "retrieve_future", {"request_id": sent}).json()
    assert messages["category"] == "user"
    assert "cancelled" in messages["error"]
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
    train(trainer, [text_datum("copper and brass")], FASTER)
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
