"""A cut of a decoder computes what a decoder made of only those weights computes, and names its tensors alike."""

from dataclasses import replace

import pytest
import torch

from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.cut import cut
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.merge import all_logprobs, probe_sequences
from tinsmith.models.names import EMBEDDING, HEAD, expected_tensors
from tinsmith.models.presets import PRESETS
from tinsmith.models.slots import values
from tinsmith.ops.native import NativeKernels

DEEP = replace(PRESETS["nano"], num_layers=5)


@pytest.mark.parametrize("config", [replace(DEEP, tied=True), replace(DEEP, tied=False)])
def test_it_is_the_decoder_of_its_own_weights(config: DecoderConfig) -> None:
    weights, kernels = initial_weights(config, 0), NativeKernels()
    part = cut(build_decoder(config, weights, kernels), layers=2, vocab=101, positions=64)
    small = replace(config, num_layers=2, vocab_size=101, max_positions=64)
    assert part.config == small
    taken = {
        name: weights[name][:101] if name in (EMBEDDING, HEAD) else weights[name] for name in expected_tensors(small)
    }
    found = values(part.slots)
    assert sorted(found) == sorted(taken)
    assert all(torch.equal(found[name], taken[name]) for name in taken)
    sequences = probe_sequences(small, seed=0)
    alone = build_decoder(small, taken, kernels)
    assert torch.equal(all_logprobs(part, {}, sequences), all_logprobs(alone, {}, sequences))


def test_a_decoder_within_the_limits_is_left_as_it_is() -> None:
    config = PRESETS["nano"]
    whole = build_decoder(config, initial_weights(config, 0), NativeKernels())
    part = cut(whole, layers=99, vocab=10**6, positions=10**6)
    assert part.config == config
    assert part.head is whole.head
    assert part.embedding is whole.embedding
    assert [slot.name for slot in part.slots] == [slot.name for slot in whole.slots]
