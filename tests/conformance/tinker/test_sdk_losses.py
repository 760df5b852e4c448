"""Values and gradients of all six losses against their published formulas (checks 2 and 3)."""

from collections.abc import Mapping

import numpy as np
import pytest
import tinker
import torch
from hf_reference import HfReference
from loss_formulas import CASES, TEXTS, loss_batch, total
from sdk_cases import TIMEOUT_S, datum, forward, grad_norm, logprobs_of, lora, same, text_datum, tokens_of, train
from sdk_server import Server
from tinker import types

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
