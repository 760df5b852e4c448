from dataclasses import replace

import pytest
import torch

from tinsmith.models.config import DecoderConfig, Family
from tinsmith.models.folders.folder import weights_fingerprint
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.names import expected_tensors
from tinsmith.models.presets import PRESETS

MOE_NANO_SEED_0 = "5e1826df8759becbd73682acd08c36438679df8969aeff92a02fc8aa40d33ed4"
NANO_SEED_0 = "103ede74ac53d922cee72b5d8bcd5686180344b1b56269fde12bff044e250a1a"


def _num_parameters(config: DecoderConfig) -> int:
    return sum(torch.Size(shape).numel() for shape in expected_tensors(config).values())


def test_presets_have_their_stated_sizes() -> None:
    assert {name: _num_parameters(config) for name, config in PRESETS.items()} == {
        "nano": 1_000_576,
        "tiny": 5_401_856,
        "moe-nano": 1_054_080,
    }


@pytest.mark.golden
def test_weights_of_seed_0_have_the_same_bits_everywhere() -> None:
    assert weights_fingerprint(initial_weights(PRESETS["nano"], 0)) == NANO_SEED_0
    assert weights_fingerprint(initial_weights(PRESETS["moe-nano"], 0)) == MOE_NANO_SEED_0


def test_another_seed_gives_other_weights() -> None:
    assert weights_fingerprint(initial_weights(PRESETS["nano"], 1)) != NANO_SEED_0


def test_weights_are_those_expected_in_fp32() -> None:
    weights = initial_weights(PRESETS["tiny"], 3)
    assert {name: tuple(w.shape) for name, w in weights.items()} == expected_tensors(PRESETS["tiny"])
    assert {w.dtype for w in weights.values()} == {torch.float32}


def test_scales_are_as_stated() -> None:
    weights = initial_weights(PRESETS["nano"], 0)
    scale = {name: w.std().item() for name, w in weights.items() if w.ndim == 2}
    residual = 0.02 / 8**0.5
    assert scale["model.embed_tokens.weight"] == pytest.approx(0.02, rel=0.01)
    assert scale["model.layers.3.mlp.gate_proj.weight"] == pytest.approx(0.02, rel=0.01)
    assert scale["model.layers.3.mlp.down_proj.weight"] == pytest.approx(residual, rel=0.01)
    assert scale["model.layers.0.self_attn.o_proj.weight"] == pytest.approx(residual, rel=0.01)
    assert weights["model.embed_tokens.weight"].abs().max() <= 0.02 * 3**0.5


def test_norms_are_one_and_biases_zero() -> None:
    config = replace(PRESETS["nano"], family=Family.QWEN2, qkv_bias=True, qk_norm=True)
    vectors = {n: w for n, w in initial_weights(config, 0).items() if w.ndim == 1}
    assert len(vectors) == 4 * (2 + 3 + 2) + 1
    for name, vector in vectors.items():
        assert torch.equal(vector, torch.full_like(vector, float(name.endswith("norm.weight"))))


def test_a_tensor_more_does_not_move_the_others() -> None:
    tied = initial_weights(PRESETS["nano"], 0)
    free = initial_weights(replace(PRESETS["nano"], tied=False), 0)
    assert set(free) - set(tied) == {"lm_head.weight"}
    assert all(torch.equal(free[name], tensor) for name, tensor in tied.items())
    assert not torch.equal(free["lm_head.weight"], free["model.embed_tokens.weight"])
