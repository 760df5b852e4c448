"""Adapters on experts and routers against peft: log-probabilities and gradients of every kind."""

from dataclasses import replace

import pytest
import torch

from oracles import (
    OLMOE,
    QWEN3_MOE,
    cross_entropy,
    full_logprobs,
    gradients,
    held_weights,
    hf_model,
    make_adapter,
    make_datums,
    reference_gradients,
    reference_logprobs,
    reference_model,
    relative_error,
    sequences,
    small_decoder,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.config import DecoderConfig
from tinsmith.models.held import held_base
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import LossName

MAX_LOGPROB_DIFFERENCE = 5e-5
MAX_GRADIENT_ERROR = 1e-4

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")]

EACH = pytest.mark.parametrize("config", [QWEN3_MOE, replace(OLMOE, num_layers=1)], ids=["qwen3_moe", "olmoe"])
KINDS = pytest.mark.parametrize(
    ("kind", "router"),
    [
        (AdapterKind.LORA, False),
        (AdapterKind.LORA, True),
        (AdapterKind.DORA, True),
        (AdapterKind.QLORA, False),
        (AdapterKind.QDORA, True),
    ],
)


@EACH
@KINDS
def test_an_adapter_computes_and_learns_as_peft_does(config: DecoderConfig, kind: AdapterKind, router: bool) -> None:
    spec = AdapterSpec(kind=kind, rank=3, alpha=6.0, seed=9, train_router=router)
    adapter = make_adapter(config, spec)
    model = reference_model(adapter)
    tokens = sequences((40, 1, 17), config, 3)
    with torch.no_grad():
        for ours, ids in zip(full_logprobs(adapter.decoder, adapter.low, tokens), tokens, strict=True):
            difference = float((ours - reference_logprobs(model, ids)).abs().max())
            assert difference <= MAX_LOGPROB_DIFFERENCE
    datums = make_datums(config, (30, 1, 17, 3), 5)
    session = TrainingSession(adapter, micro_batches=MicroBatches(units=3))
    session.forward_backward(datums, LossName.CROSS_ENTROPY)
    reference = reference_gradients(model, datums, cross_entropy)
    assert relative_error(gradients(session), reference) <= MAX_GRADIENT_ERROR


@EACH
def test_a_quantised_base_computes_with_what_it_holds(config: DecoderConfig) -> None:
    decoder = small_decoder(config, quantised=True)
    model = hf_model(config, held_weights(config, quantised=True), torch.float64)
    tokens = sequences((40, 1, 17), config, 3)
    with torch.no_grad():
        for ours, ids in zip(full_logprobs(decoder, {}, tokens), tokens, strict=True):
            difference = float((ours - reference_logprobs(model, ids)).abs().max())
            assert difference <= MAX_LOGPROB_DIFFERENCE


@EACH
def test_experts_are_held_in_four_bits(config: DecoderConfig) -> None:
    whole = held_base(small_decoder(config, quantised=False))
    held = held_base(small_decoder(config, quantised=True))
    assert held.linear_weights == whole.linear_weights
    assert held.linears < 0.2 * whole.linears


@EACH
def test_the_model_with_its_experts_apart_is_the_same_model(config: DecoderConfig) -> None:
    weights = held_weights(config, quantised=False)
    (tokens,) = sequences((40,), config, 3)
    with torch.no_grad():
        said = [
            reference_logprobs(hf_model(config, weights, torch.float64, apart=apart), tokens) for apart in (False, True)
        ]
    assert float((said[0] - said[1]).abs().max()) <= 5e-6  # transformers' shares are fp32 at most
