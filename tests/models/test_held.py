"""Bytes that a base takes: counted from tensors, beside what bitsandbytes takes for the same weights."""

from dataclasses import replace

import bitsandbytes.functional as bnb
import numpy as np
import pytest
import torch

from oracles import OLMOE, QWEN3_MOE, small_decoder
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import HEAD_PLACE, Decoder
from tinsmith.models.held import held_base
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops import nf4
from tinsmith.ops.linear import Nf4Base
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.packed import Packed

pytestmark = pytest.mark.whole

CONFIG = PRESETS["nano"]
WEIGHTS = initial_weights(CONFIG, 0)
LINEARS = [name for name in WEIGHTS if "self_attn" in name or "mlp" in name]


@pytest.fixture(scope="module")
def quantised() -> Decoder:
    return build_decoder(CONFIG, WEIGHTS, NativeKernels(), quantised=True)


def test_a_base_as_fp32_takes_what_its_published_tensors_take() -> None:
    held = held_base(build_decoder(CONFIG, WEIGHTS, NativeKernels()))
    assert held.whole == sum(tensor.nbytes for tensor in WEIGHTS.values())
    assert held.linears == sum(WEIGHTS[name].nbytes for name in LINEARS)
    assert (held.linears_to_fp32, held.whole_to_fp32) == (1.0, 1.0)


def test_four_bits_take_less_than_three_tenths_of_fp32(quantised: Decoder) -> None:
    held = held_base(quantised)
    parts = [nf4.quantise(WEIGHTS[name].numpy()) for name in LINEARS]
    assert held.linears == sum(nf4.num_bytes(part) for part in parts)
    assert held.linears_to_fp32 < 0.13
    assert held.whole_to_fp32 <= 0.30
    assert 2 * held.whole_to_fp32 <= 0.60, "over its bytes as bf16"


@pytest.mark.parametrize("name", sorted(PRESETS))
@pytest.mark.parametrize("tied", [True, False])
def test_even_where_the_vocabulary_is_large_a_base_takes_three_tenths(name: str, tied: bool) -> None:
    """Embedding and head are bf16: they may be more than a third of a small model."""
    config = replace(PRESETS[name], vocab_size=4 * PRESETS[name].hidden_size, tied=tied)
    decoder = build_decoder(config, initial_weights(config, 0), NativeKernels(), quantised=True)
    held = held_base(decoder)
    vectors = sum(one.value.nbytes for one in decoder.slots if one.value.ndim == 1)
    wide = config.vocab_size * config.hidden_size * (1 if tied else 2)
    assert held.others == 2 * wide + vectors
    assert held.whole_to_fp32 <= 0.30


@pytest.mark.parametrize("config", [QWEN3_MOE, OLMOE], ids=["qwen3_moe", "olmoe"])
def test_experts_are_held_in_four_bits(config: DecoderConfig) -> None:
    whole, held = (held_base(small_decoder(config, quantised=quantised)) for quantised in (False, True))
    assert held.linear_weights == whole.linear_weights
    assert held.linears < 0.2 * whole.linears


def test_embedding_and_tied_head_are_the_same_rounded_numbers(quantised: Decoder) -> None:
    rounded = WEIGHTS["model.embed_tokens.weight"].bfloat16()
    assert isinstance(quantised.embedding, Packed)
    assert quantised.embedding.type == "BF16"
    assert quantised.head.base == (quantised.embedding,)
    assert torch.equal(quantised.head.weight(quantised.kernels), rounded.float().t())
    ids = torch.tensor([3, 0, 3])
    assert torch.equal(quantised.embedding.take(ids), rounded[ids].float())


def test_as_much_as_bitsandbytes_with_double_quantisation(quantised: Decoder) -> None:
    theirs = 0
    for name in LINEARS:
        codes, state = bnb.quantize_4bit(
            WEIGHTS[name].flatten(), blocksize=64, compress_statistics=True, quant_type="nf4"
        )
        assert state.nested
        # The levels themselves are one table for all weights, here as there.
        theirs += codes.nbytes + state.absmax.nbytes + state.state2.absmax.nbytes
        theirs += state.offset.nbytes
    assert held_base(quantised).linears == theirs


def test_scales_are_held_as_codes_and_decode_to_the_same_bits(quantised: Decoder) -> None:
    linears = {place: one for place, one in quantised.linears().items() if place != HEAD_PLACE}
    weights = [nf4.quantise(WEIGHTS[name].numpy()) for name in LINEARS]
    expected = sorted(nf4.dequantise(weight).tobytes() for weight in weights)
    found, kinds = list[bytes](), set[type]()
    for linear in linears.values():
        assert linear.is_nf4
        kinds |= {type(base) for base in linear.base}
        whole = linear.weight(quantised.kernels).t().split(list(linear.widths))
        found += [np.ascontiguousarray(part.numpy()).tobytes() for part in whole]
    assert sorted(found) == expected
    assert kinds == {Packed, Nf4Base}, "rows that are whole blocks, and rows that are not"
