"""The decoder against transformers: log-probabilities of the whole vocabulary, all gradients."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from families import FAMILIES, make_hf_model
from transformers import AutoModelForCausalLM

from oracles import (
    LLAMA,
    QWEN2,
    QWEN3,
    cross_entropy,
    full_logprobs,
    gradients,
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
from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.names import expected_tensors
from tinsmith.ops.native import NativeKernels
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

BOTH_HEADS = pytest.mark.parametrize("tied", [False, True], ids=["free", "tied"])


def _hf(folder: Path, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The folder's own numbers, computed with in `dtype`."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def _ours(folder: Path) -> Decoder:
    config = read_config(folder)
    return build_decoder(config, read_weights(folder, config), NativeKernels())


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
    decoder = _ours(tmp_path)
    assert decoder.config.tied is tied
    assert _largest_difference(decoder, _hf(tmp_path), LENGTHS) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_weights_stored_as_bf16_are_computed_with_in_fp32(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 8, dtype="bfloat16")
    assert _largest_difference(_ours(tmp_path), _hf(tmp_path), LENGTHS) <= MAX_LOGPROB_DIFFERENCE


@pytest.mark.parametrize("family", ["llama", "llama3_rope"])
def test_the_last_position_of_the_context_is_still_right(family: str, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 9)
    decoder = _ours(tmp_path)
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


@BOTH_HEADS
@pytest.mark.parametrize("family", FAMILIES)
def test_every_gradient_is_that_of_autograd(family: str, tied: bool, tmp_path: Path) -> None:
    make_hf_model(family, tmp_path, 10, tied=tied)
    decoder = _ours(tmp_path)
    datums = make_datums(decoder.config, (48, 1, 17, 3), 5)
    adapter = create_adapter(decoder, AdapterSpec(kind=AdapterKind.FULL))
    session = TrainingSession(adapter, micro_batches=MicroBatches(units=3))
    session.forward_backward(datums, LossName.CROSS_ENTROPY)
    reference = reference_gradients(_hf(tmp_path, torch.float64), datums, cross_entropy)
    ours = gradients(session)
    assert set(ours) == set(expected_tensors(decoder.config))
    assert all(float(gradient.norm()) > 0 for gradient in ours.values())
    assert relative_error(ours, reference) <= MAX_GRADIENT_ERROR


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
