"""A user's mistake: quick, in the SDK's error classes, with the numbers; and the client lives on (checks 9, 10)."""

from collections.abc import Mapping

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
    told = train(disturbed, [TEXT], ADAM)
    assert str(VOCAB + 9) in refusal(lambda: bad)
    assert told.grad_norm == pytest.approx(expected.grad_norm, rel=1e-6)
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
