"""Steps, accumulation, chunks, isolation: what the trainer does with gradients (checks 4, 5, 6, 12)."""

from collections.abc import Mapping

import numpy as np
import pytest
import tinker
import torch
from hf_reference import HfReference
from loss_formulas import CASES, TEXTS, loss_batch, total
from sdk_cases import (
    TIMEOUT_S,
    Step,
    datum,
    forward,
    grad_norm,
    logprobs_of,
    lora,
    prompt_of,
    same,
    same_step,
    sampler_logprobs,
    text_datum,
    tokens_of,
    train,
)
from sdk_server import Server
from tinker import types

MANY_TEXTS = ("a tinker mends pots", "and a tinsmith makes them", "of sheet", "cut with shears")
DATA = [text_datum(text) for text in MANY_TEXTS]
ADAM = types.AdamParams(learning_rate=0.01, eps=0.01)
"""An eps of the gradients' size: Adam's step then depends on the gradient's length too."""


def steps(client: tinker.TrainingClient, params: types.AdamParams = ADAM, count: int = 3) -> list[Step]:
    """Train on one text after another."""
    return [train(client, [DATA[i % len(DATA)]], params) for i in range(count)]


def test_a_learning_rate_of_zero_changes_no_bit(server: Server, service: tinker.ServiceClient) -> None:
    client = lora(service, server.model)
    steps(client)
    before = forward(client, DATA)
    train(client, DATA, types.AdamParams(learning_rate=0.0))
    assert same(server, before, forward(client, DATA))


@pytest.mark.parametrize(
    "change",
    [
        {"learning_rate": 0.02},
        {"beta1": 0.5},
        {"beta2": 0.5},
        {"eps": 0.1},
        {"weight_decay": 5.0},
        {"grad_clip_norm": 0.001},
    ],
    ids=lambda change: next(iter(change)),
)
def test_no_setting_of_the_optimizer_is_ignored(
    server: Server, service: tinker.ServiceClient, change: dict[str, float]
) -> None:
    default, changed = lora(service, server.model), lora(service, server.model)
    steps(default)
    steps(changed, ADAM.model_copy(update=change))
    pairs = zip(forward(default, DATA), forward(changed, DATA), strict=True)
    assert max(np.abs(a - b).max() for a, b in pairs) > 1e-4


def test_a_clip_above_the_norm_changes_no_bit(server: Server, service: tinker.ServiceClient) -> None:
    default, clipped = lora(service, server.model), lora(service, server.model)
    plain = steps(default)
    loose = steps(clipped, ADAM.model_copy(update={"grad_clip_norm": 1e9}))
    assert all(same_step(server, a, b) for a, b in zip(plain, loose, strict=True))
    assert same(server, forward(default, DATA), forward(clipped, DATA))


def test_gradients_accumulate_until_the_step(server: Server, service: tinker.ServiceClient) -> None:
    """Datums that share no beginning, as a tree of several would be cut by the requests."""
    data = [datum([i, *range(40 + 3 * i, 60 + i)]) for i in (1, 2, 3)]
    whole, parts = lora(service, server.model), lora(service, server.model)
    together = train(whole, data, ADAM)
    pending = [parts.forward_backward([one], "cross_entropy") for one in data]
    norm = grad_norm(parts.optim_step(ADAM).result(TIMEOUT_S))
    outputs = [future.result(TIMEOUT_S) for future in pending]
    assert same(server, together.logprobs, [logprobs_of(out)[0] for out in outputs])
    assert norm == pytest.approx(together.grad_norm, rel=1e-6)
    assert same(server, forward(whole, DATA), forward(parts, DATA))


def test_a_forward_adds_no_gradient(server: Server, service: tinker.ServiceClient) -> None:
    plain, looked = lora(service, server.model), lora(service, server.model)
    expected = train(plain, DATA[:1], ADAM)
    looked.forward(DATA[1:], "cross_entropy")
    assert same_step(server, expected, train(looked, DATA[:1], ADAM))
    assert same(server, forward(plain, DATA), forward(looked, DATA))


def test_a_step_clears_the_gradient(server: Server, service: tinker.ServiceClient) -> None:
    client, again = lora(service, server.model), lora(service, server.model)
    still = types.AdamParams(learning_rate=0.0)
    train(client, DATA[:2], still)
    second = train(client, DATA[2:], still)
    assert second.grad_norm == train(again, DATA[2:], still).grad_norm


def test_chunks_come_back_in_order_and_give_one_gradient(server: Server, service: tinker.ServiceClient) -> None:
    """1030 datums are two requests, of which the SDK posts the first one last."""
    rng = np.random.default_rng(3)
    sequences = [rng.integers(1, 250, 2 + i % 3).tolist() for i in range(1030)]
    data = [datum(sequence) for sequence in sequences]
    chunked, split = lora(service, server.model), lora(service, server.model)
    step = train(chunked, data, ADAM)
    pending = [split.forward_backward(data[i : i + 103], "cross_entropy") for i in range(0, 1030, 103)]
    norm = grad_norm(split.optim_step(ADAM).result(TIMEOUT_S))
    outputs = [future.result(TIMEOUT_S) for future in pending]
    assert [len(values) for values in step.logprobs] == [len(s) - 1 for s in sequences]
    assert same(server, step.logprobs, [values for out in outputs for values in logprobs_of(out)])
    assert step.loss == pytest.approx(-sum(values.sum() for values in step.logprobs), rel=1e-5)
    # Trees do not cross requests, so that another cut is another sum; the same cut is the same.
    assert norm == pytest.approx(step.grad_norm, rel=1e-5)
    again = lora(service, server.model)
    assert same_step(server, step, train(again, data, ADAM))
    assert same(server, forward(chunked, DATA), forward(again, DATA))
    pairs = zip(forward(chunked, DATA), forward(split, DATA), strict=True)
    assert max(np.abs(a - b).max() for a, b in pairs) <= 1e-3


def test_the_loss_of_equal_datums_is_their_number_times_one(server: Server, service: tinker.ServiceClient) -> None:
    client = lora(service, server.model)
    one = client.forward(DATA[2:3], "cross_entropy").result(TIMEOUT_S).metrics["loss:sum"]
    many = client.forward(DATA[2:3] * 1030, "cross_entropy").result(TIMEOUT_S).metrics["loss:sum"]
    assert many == pytest.approx(1030 * one, rel=1e-5)


def test_a_seed_is_an_adapter(server: Server, service: tinker.ServiceClient) -> None:
    traces = [steps(lora(service, server.model, seed=seed)) for seed in (1, 1, 2)]
    assert all(same_step(server, a, b) for a, b in zip(traces[0], traces[1], strict=True))
    assert not same_step(server, traces[0][2], traces[2][2])


def test_two_clients_interleaved_are_each_alone(server: Server, service: tinker.ServiceClient) -> None:
    ranks = (4, 8)
    alone = [steps(lora(service, server.model, rank=rank, seed=rank)) for rank in ranks]
    pair = [lora(service, server.model, rank=rank, seed=rank) for rank in ranks]
    pending = [
        [(client.forward_backward([DATA[i]], "cross_entropy"), client.optim_step(ADAM)) for client in pair]
        for i in range(3)
    ]
    for which, trace in enumerate(alone):
        for step, futures in zip(trace, pending, strict=True):
            output, optim = (future.result(TIMEOUT_S) for future in futures[which])
            together = Step(logprobs=logprobs_of(output), loss=output.metrics["loss:sum"], grad_norm=grad_norm(optim))
            assert same_step(server, step, together)


def test_training_touches_neither_base_nor_snapshot(server: Server, service: tinker.ServiceClient) -> None:
    base = service.create_sampling_client(base_model=server.model).result(TIMEOUT_S)
    client = lora(service, server.model)
    base_before = sampler_logprobs(base, MANY_TEXTS[0])
    steps(client)
    snapshot = client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
    snapshot_before = sampler_logprobs(snapshot, MANY_TEXTS[0])
    steps(client)
    later = client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
    assert same(server, [base_before], [sampler_logprobs(base, MANY_TEXTS[0])])
    assert same(server, [snapshot_before], [sampler_logprobs(snapshot, MANY_TEXTS[0])])
    assert not same(server, [snapshot_before], [sampler_logprobs(later, MANY_TEXTS[0])])


@pytest.mark.parametrize("part", ["train_mlp", "train_attn", "train_unembed"])
def test_a_part_that_is_not_trained_changes_the_run(server: Server, service: tinker.ServiceClient, part: str) -> None:
    every = lora(service, server.model)
    less = service.create_lora_training_client(base_model=server.model, rank=4, seed=0, **{part: False}).result(
        TIMEOUT_S
    )
    steps(every)
    steps(less)
    assert not same(server, forward(every, DATA), forward(less, DATA))


def test_a_custom_loss_posts_all_its_chunks(server: Server, service: tinker.ServiceClient) -> None:
    """1030 datums and two phases: four requests whose numbers are reserved at once."""
    data = [datum(tokens_of("abcd"))] * 1030
    built_in, custom = lora(service, server.model), lora(service, server.model)
    step = train(built_in, data, ADAM)
    pending = custom.forward_backward_custom(
        data, lambda _data, logprobs: (-sum(values.sum() for values in logprobs), {})
    )
    norm = grad_norm(custom.optim_step(ADAM).result(TIMEOUT_S))
    assert pending.result(TIMEOUT_S).metrics["loss:sum"] == pytest.approx(step.loss, rel=1e-5)
    assert norm == pytest.approx(step.grad_norm, rel=1e-6)
    assert same(server, forward(built_in, DATA), forward(custom, DATA))


GENTLE = types.AdamParams(learning_rate=0.05, eps=1.0)
"""An eps above every gradient makes Adam's first step proportional to the gradient."""

IDS = [f"{loss}-{'-'.join(map(str, config.values())) or 'default'}" for loss, config in CASES]


@pytest.fixture(scope="module")
def fresh(server: Server, service: tinker.ServiceClient) -> tinker.TrainingClient:
    """An adapter that is never stepped: its model is the base."""
    return lora(service, server.model)


def test_cross_entropy_returns_the_logprobs_of_transformers(fresh: tinker.TrainingClient, hf: HfReference) -> None:
    data = [text_datum(text) for text in TEXTS]
    output = fresh.forward(data, "cross_entropy").result(TIMEOUT_S)
    assert len(output.loss_fn_outputs) == len(TEXTS)
    for text, out in zip(TEXTS, output.loss_fn_outputs, strict=True):
        expected = hf.logprobs(tokens_of(text))
        assert out["logprobs"].dtype == "float32"
        assert list(out["logprobs"].to_numpy().shape) == [len(expected)]
        np.testing.assert_allclose(out["logprobs"].to_numpy(), expected, rtol=0, atol=1e-5)


def test_forward_and_forward_backward_return_the_same(server: Server, fresh: tinker.TrainingClient) -> None:
    data = [text_datum(text) for text in TEXTS]
    forward_only = fresh.forward(data, "cross_entropy").result(TIMEOUT_S)
    both = fresh.forward_backward(data, "cross_entropy").result(TIMEOUT_S)
    assert same(server, logprobs_of(forward_only), logprobs_of(both))
    assert forward_only.metrics["loss:sum"] == pytest.approx(both.metrics["loss:sum"], rel=1e-6)


def test_weights_are_real_numbers_and_are_not_normalised(fresh: tinker.TrainingClient) -> None:
    tokens = tokens_of(TEXTS[0])
    weights = np.linspace(-0.5, 1.5, len(tokens) - 1, dtype=np.float32)
    output = fresh.forward([datum(tokens, {"weights": weights})], "cross_entropy").result(TIMEOUT_S)
    logp = logprobs_of(output)[0].astype(np.float64)
    assert output.metrics["loss:sum"] == pytest.approx(-(weights * logp).sum(), rel=1e-5)


def test_a_datum_without_weights_has_ones(fresh: tinker.TrainingClient) -> None:
    output = fresh.forward([datum(tokens_of(TEXTS[0]))], "cross_entropy").result(TIMEOUT_S)
    logp = logprobs_of(output)[0].astype(np.float64)
    assert output.metrics["loss:sum"] == pytest.approx(-logp.sum(), rel=1e-5)


@pytest.mark.parametrize(("loss_fn", "config"), CASES, ids=IDS)
def test_a_loss_is_the_sum_its_formula_says(
    fresh: tinker.TrainingClient, loss_fn: types.LossFnType, config: Mapping[str, float]
) -> None:
    logprobs = forward(fresh, [text_datum(text) for text in TEXTS])
    batch = loss_batch(loss_fn, logprobs)
    output = fresh.forward(batch, loss_fn, config).result(TIMEOUT_S)
    returned = [torch.from_numpy(values) for values in logprobs_of(output)]
    expected = total(loss_fn, config, batch, returned).item()
    assert output.metrics["loss:sum"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("loss_fn", "config"), CASES, ids=IDS)
def test_a_loss_has_the_gradient_of_its_formula(
    server: Server, service: tinker.ServiceClient, loss_fn: types.LossFnType, config: Mapping[str, float]
) -> None:
    texts = [text_datum(text) for text in TEXTS]
    built_in, custom = lora(service, server.model), lora(service, server.model)
    before = forward(built_in, texts)
    batch = loss_batch(loss_fn, before)

    def formula(data: list[types.Datum], logprobs: list[torch.Tensor]) -> tuple[torch.Tensor, dict[str, float]]:
        loss = total(loss_fn, config, data, logprobs)
        return loss, {"formula": loss.item()}

    step = train(built_in, batch, GENTLE, loss_fn=loss_fn, config=config)
    pending = custom.forward_backward_custom(batch, formula)
    optim = custom.optim_step(GENTLE)
    output = pending.result(TIMEOUT_S)
    assert output.metrics["loss:sum"] == pytest.approx(step.loss, rel=1e-5)
    assert output.metrics["formula"] == output.metrics["loss:sum"]
    assert grad_norm(optim.result(TIMEOUT_S)) == pytest.approx(step.grad_norm, rel=1e-4)

    after = forward(built_in, texts)
    assert max(np.abs(a - b).max() for a, b in zip(after, before, strict=True)) > 1e-4
    for left, right in zip(after, forward(custom, texts), strict=True):
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-5)


def test_cispo_lets_a_ratio_of_three_pass_by_default(fresh: tinker.TrainingClient) -> None:
    tokens = tokens_of(TEXTS[0])
    logp = forward(fresh, [text_datum(TEXTS[0])])[0].astype(np.float64)
    batch = [datum(tokens, {"logprobs": logp - np.log(3.0), "advantages": np.ones(len(logp))})]
    wide = fresh.forward(batch, "cispo").result(TIMEOUT_S).metrics["loss:sum"]
    narrow = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
    clipped = fresh.forward(batch, "cispo", narrow).result(TIMEOUT_S).metrics["loss:sum"]
    assert wide == pytest.approx(-3.0 * logp.sum(), rel=1e-4)
    assert clipped == pytest.approx(-1.2 * logp.sum(), rel=1e-4)


def test_every_metric_names_its_reduction(fresh: tinker.TrainingClient) -> None:
    logprobs = forward(fresh, [text_datum(text) for text in TEXTS])
    for loss_fn, config in CASES:
        output = fresh.forward(loss_batch(loss_fn, logprobs), loss_fn, config).result(TIMEOUT_S)
        reductions = [name.split(":")[1:] for name in output.metrics]
        allowed = {"mean", "sum", "min", "max", "slack", "hash2", "unique"}
        assert all(len(r) == 1 and r[0] in allowed for r in reductions), output.metrics


TEXT = "tin snips"
FAST_ADAM = types.AdamParams(learning_rate=0.003)
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
    losses = [train(client, [text_datum(TEXT)], FAST_ADAM).loss for _ in range(4)]
    assert losses[-1] < losses[0]
    sampler = client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
    trained = forward(client, [text_datum(TEXT)])[0]
    assert np.abs(trained - sampler_logprobs(sampler, TEXT)).max() <= (0 if server.exact else 1e-5)


def test_an_adapter_by_name_goes_on_from_its_checkpoints(
    service: tinker.ServiceClient, server: Server, name: str
) -> None:
    wanted = types.SamplingParams(max_tokens=12, seed=1, stop=[])
    client = service.create_lora_training_client(name, seed=0).result(TIMEOUT_S)
    train(client, [text_datum(TEXT)], FAST_ADAM)
    path = client.save_state("one").result(TIMEOUT_S).path
    sampler_path = client.save_weights_for_sampler("one").result(TIMEOUT_S).path
    live = client.save_weights_and_get_sampling_client().result(TIMEOUT_S)
    stored = service.create_sampling_client(model_path=sampler_path).result(TIMEOUT_S)
    drawn = [s.sample(prompt_of(TEXT), 2, wanted).result(TIMEOUT_S) for s in (live, stored)]
    assert [s.tokens for s in drawn[0].sequences] == [s.tokens for s in drawn[1].sequences]
    expected = train(client, [text_datum(TEXT)], FAST_ADAM)
    resumed = service.create_training_client_from_state_with_optimizer(path).result(TIMEOUT_S)
    assert resumed.get_info().model_data.model_name == name
    assert same_step(server, expected, train(resumed, [text_datum(TEXT)], FAST_ADAM))
