"""The decoder against transformers: log-probabilities of the whole vocabulary, routes, all gradients."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from families import FAMILIES, MIXTURES, make_hf_model
from peft_cases import decoder_of
from transformers import AutoModelForCausalLM

from oracles import (
    LLAMA,
    OLMOE,
    QWEN2,
    QWEN3,
    QWEN3_MOE,
    cross_entropy,
    experts_together,
    full_logprobs,
    gradients,
    held_weights,
    hf_model,
    make_datums,
    random_weights,
    reference_gradients,
    reference_logprobs,
    relative_error,
    sequences,
    small_decoder,
)
from tinsmith.engine.training import TrainingSession
from tinsmith.engine.unit_gradients import MicroBatches
from tinsmith.models.adapter import create_adapter
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, LinearScaling
from tinsmith.models.decoder import Decoder
from tinsmith.models.names import expected_tensors
from tinsmith.models.routes import RouteRecord
from tinsmith.models.steps import TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.routing import Routes
from tinsmith.types.adapters import AdapterKind, AdapterSpec
from tinsmith.types.datum import LossName

pytestmark = pytest.mark.whole

LENGTHS = (200, 1, 33, 2, 96)
MAX_LOGPROB_DIFFERENCE = 5e-5
MAX_GRADIENT_ERROR = 1e-4

ODD_SHAPES = {
    "no_width_is_a_multiple_of_anything": replace(
        LLAMA,
        vocab_size=31,
        hidden_size=21,
        intermediate_size=41,
        num_layers=1,
        num_heads=3,
        num_kv_heads=1,
        head_dim=10,
    ),
    "every_query_head_has_its_own_keys": replace(QWEN3, num_kv_heads=4, head_dim=2),
    "one_head_as_wide_as_the_model": replace(QWEN2, num_heads=1, num_kv_heads=1, head_dim=64),
    "linear_rope_scaling": replace(LLAMA, rope_scaling=LinearScaling(factor=4.0)),
}

EACH_MIXTURE = pytest.mark.parametrize("config", [QWEN3_MOE, replace(OLMOE, num_layers=1)], ids=["qwen3_moe", "olmoe"])
BOTH_HEADS = pytest.mark.parametrize("tied", [False, True], ids=["free", "tied"])


def _hf(folder: Path, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The folder's own numbers, computed with in `dtype`."""
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager"
    ).eval()


def _largest_difference(decoder: Decoder, model: torch.nn.Module, lengths: tuple[int, ...]) -> float:
    tokens = sequences(lengths, decoder.config, 11)
    with torch.no_grad():
        return max(
            float((ours - reference_logprobs(model, ids)).abs().max())
            for ours, ids in zip(full_logprobs(decoder, {}, tokens), tokens, strict=True)
        )


@BOTH_HEADS
@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_are_those_of_transformers(family: str, tied: bool, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 7, tied=tied)
    decoder = decoder_of(tmp_path)
    assert decoder.config.tied is tied
    assert _largest_difference(decoder, _hf(tmp_path), LENGTHS) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3_moe", "olmoe"])
def test_weights_stored_as_bf16_are_computed_with_in_fp32(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 8, dtype="bfloat16")
    assert _largest_difference(decoder_of(tmp_path), _hf(tmp_path), LENGTHS) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("family", ["llama", "llama3_rope"])
def test_the_last_position_of_the_context_is_still_right(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 9)
    decoder = decoder_of(tmp_path)
    lengths = (decoder.config.max_positions, 3)
    assert _largest_difference(decoder, _hf(tmp_path), lengths) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("config", [LLAMA, QWEN2, QWEN3], ids=["llama", "qwen2", "qwen3"])
def test_logprobs_of_the_vocabulary_sum_to_one(config: DecoderConfig) -> None:
    decoder = small_decoder(config, quantised=False)
    for logprobs in full_logprobs(decoder, {}, sequences((40, 1, 7), config, 2)):
        sums = logprobs.double().exp().sum(dim=1)
        torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=2e-6)


@pytest.mark.parametrize("config", [LLAMA, QWEN2, QWEN3], ids=["llama", "qwen2", "qwen3"])
def test_a_sequence_has_the_same_bits_alone_and_in_any_company(config: DecoderConfig) -> None:
    decoder = small_decoder(config, quantised=False)
    tokens = sequences((33, 1, 64, 16, 17), config, 4)
    together = full_logprobs(decoder, {}, tokens)
    backwards = full_logprobs(decoder, {}, tokens[::-1])[::-1]
    for i, ids in enumerate(tokens):
        (alone,) = full_logprobs(decoder, {}, [ids])
        (prefix,) = full_logprobs(decoder, {}, [ids[: len(ids) // 2 + 1]])
        assert torch.equal(together[i], alone)
        assert torch.equal(backwards[i], alone)
        assert torch.equal(prefix, alone[: len(prefix)])


@pytest.mark.parametrize(
    ("family", "tied"), [*product(FAMILIES, (False, True)), *((family, None) for family in MIXTURES)]
)
def test_every_gradient_is_that_of_autograd(family: str, tied: bool | None, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 10, tied=tied)
    decoder = decoder_of(tmp_path)
    datums = make_datums(decoder.config, (48, 1, 17, 3), 5)
    adapter = create_adapter(decoder, AdapterSpec(kind=AdapterKind.FULL))
    session = TrainingSession(adapter, micro_batches=MicroBatches(units=3))
    session.forward_backward(datums, LossName.CROSS_ENTROPY)
    reference = reference_gradients(_hf(tmp_path, torch.float64), datums, cross_entropy)
    ours = gradients(session)
    assert set(ours) == set(expected_tensors(decoder.config))
    assert family in MIXTURES or all(float(gradient.norm()) > 0 for gradient in ours.values())
    assert relative_error(experts_together(ours, decoder.config), reference) <= MAX_GRADIENT_ERROR


@pytest.mark.parametrize("config", ODD_SHAPES.values(), ids=list(ODD_SHAPES))
def test_odd_shapes_are_computed_like_any_other(config: DecoderConfig) -> None:
    weights = random_weights(config, 6)
    adapter = create_adapter(build_decoder(config, weights, NativeKernels()), AdapterSpec(kind=AdapterKind.FULL))
    model = hf_model(config, weights, torch.float64)
    lengths = (64, 1, 31, 15)
    assert _largest_difference(adapter.decoder, model, lengths) <= MAX_LOGPROB_DIFFERENCE
    datums = make_datums(config, lengths, 12)
    session = TrainingSession(adapter)
    session.forward_backward(datums, LossName.CROSS_ENTROPY)
    reference = reference_gradients(model, datums, cross_entropy)
    assert relative_error(gradients(session), reference) <= MAX_GRADIENT_ERROR


# Mixtures

NEAR_TIE = 1e-5
"""Router probabilities nearer than this may be ordered otherwise by another rounding."""


class Routed(RouteRecord):
    """The routes of a batch, layer by layer."""

    def __init__(self) -> None:
        super().__init__(np.zeros((0, 0), np.int64), np.zeros(0, np.int64))
        self.experts: dict[int, torch.Tensor] = {}
        self.gaps: dict[int, torch.Tensor] = {}
        """Probability of the last expert taken less that of the first not taken."""

    def see(self, layer: int, logits: torch.Tensor, routes: Routes) -> None:
        self.experts[layer] = routes.experts
        active = routes.experts.shape[1]
        ordered = torch.softmax(logits.double(), 1).sort(1, descending=True).values
        self.gaps[layer] = ordered[:, active - 1] - ordered[:, active]


def _routes(decoder: Decoder, tokens: torch.Tensor) -> Routed:
    routed = Routed()
    steps = TrainSteps(decoder.kernels, Forest.whole([len(tokens)]), routed=routed)
    with torch.no_grad():
        decoder.hidden(steps, tokens)
    return routed


@pytest.mark.parametrize("family", MIXTURES)
def test_logprobs_and_routes_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 7)
    decoder, model = decoder_of(tmp_path), _hf(tmp_path)
    tokens = sequences((70, 1, 33, 2, 40, 41, 42, 43), decoder.config, 11)
    compared = 0
    for ours, ids in zip(full_logprobs(decoder, {}, tokens), tokens, strict=True):
        routed = _routes(decoder, torch.from_numpy(ids.astype("int64")))
        near = torch.stack(list(routed.gaps.values())).amin(0) <= NEAR_TIE
        # Whatever comes after a token that may be routed otherwise reads of it.
        sure = int(near.int().argmax()) if bool(near.any()) else len(ids)
        compared += sure
        with torch.no_grad():
            theirs = reference_logprobs(model, ids)
            lines = model(torch.from_numpy(ids.astype("int64"))[None], output_router_logits=True).router_logits
        if sure:
            assert float((ours - theirs)[:sure].abs().max()) <= MAX_LOGPROB_DIFFERENCE
        for logits, experts in zip(lines, routed.experts.values(), strict=True):
            theirs_chosen = torch.topk(logits, experts.shape[1], dim=-1).indices.sort(1).values
            assert torch.equal(experts[:sure], theirs_chosen[:sure])
    assert compared >= 100


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("config", [QWEN3_MOE, OLMOE], ids=["qwen3_moe", "olmoe"])
def test_weights_are_normalised_where_the_config_says_so(config: DecoderConfig, normalised: bool) -> None:
    assert config.mixture is not None
    config = replace(config, mixture=replace(config.mixture, normalised=normalised))
    weights = random_weights(config, 6)
    decoder, model = build_decoder(config, weights, NativeKernels()), hf_model(config, weights, torch.float64)
    assert _largest_difference(decoder, model, (60, 1, 31)) <= MAX_LOGPROB_DIFFERENCE


@EACH_MIXTURE
def test_a_quantised_base_computes_with_what_it_holds(config: DecoderConfig) -> None:
    model = hf_model(config, held_weights(config, quantised=True), torch.float64)
    decoder = small_decoder(config, quantised=True)
    assert _largest_difference(decoder, model, (40, 1, 17)) <= MAX_LOGPROB_DIFFERENCE


@EACH_MIXTURE
def test_the_model_with_its_experts_apart_is_the_same_model(config: DecoderConfig) -> None:
    weights, (tokens,) = held_weights(config, quantised=False), sequences((40,), config, 3)
    with torch.no_grad():
        together, apart = (
            reference_logprobs(hf_model(config, weights, torch.float64, apart=apart), tokens) for apart in (False, True)
        )
    assert float((together - apart).abs().max()) <= 5e-6  # transformers' shares are fp32 at most
