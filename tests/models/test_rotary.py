from dataclasses import replace

import numpy as np
import pytest
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from oracles import LLAMA
from tinsmith.models.config import DecoderConfig, LinearScaling, Llama3Scaling
from tinsmith.models.rotary import inverse_frequencies

pytestmark = pytest.mark.whole


def _config(head_dim: int, theta: float, scaling: Llama3Scaling | LinearScaling | None = None) -> DecoderConfig:
    return replace(
        LLAMA,
        hidden_size=4 * head_dim,
        num_kv_heads=4,
        head_dim=head_dim,
        max_positions=131072,
        rope_theta=theta,
        rope_scaling=scaling,
    )


def _of_transformers(config: DecoderConfig, rope: dict[str, object]) -> np.ndarray:
    hf = LlamaConfig(
        hidden_size=config.hidden_size,
        num_attention_heads=config.num_heads,
        head_dim=config.head_dim,
        max_position_embeddings=config.max_positions,
        rope_parameters={"rope_theta": config.rope_theta, **rope},
    )
    return LlamaRotaryEmbedding(hf).inv_freq.numpy()


def _ulps_apart(ours: np.ndarray, theirs: np.ndarray) -> int:
    assert ours.dtype == theirs.dtype == np.float32
    assert ours.shape == theirs.shape
    return int(np.abs(ours.view(np.int32).astype(np.int64) - theirs.view(np.int32)).max())


@pytest.mark.parametrize("head_dim", [16, 32, 64, 80, 96, 128])
@pytest.mark.parametrize("theta", [10_000.0, 500_000.0, 1_000_000.0, 10_000_000.0])
def test_frequencies_are_those_of_transformers(head_dim: int, theta: float) -> None:
    config = _config(head_dim, theta)
    theirs = _of_transformers(config, {"rope_type": "default"})
    assert _ulps_apart(inverse_frequencies(config), theirs) <= 1


@pytest.mark.parametrize("head_dim", [16, 32, 64, 128])
@pytest.mark.parametrize("factor", [2.0, 4.0])
def test_linear_scaling_is_that_of_transformers(head_dim: int, factor: float) -> None:
    config = _config(head_dim, 10_000.0, LinearScaling(factor=factor))
    theirs = _of_transformers(config, {"rope_type": "linear", "factor": factor})
    assert _ulps_apart(inverse_frequencies(config), theirs) <= 1


@pytest.mark.parametrize("head_dim", [16, 32, 64, 128])
@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_scaling_is_that_of_transformers(head_dim: int, factor: float) -> None:
    scaling = Llama3Scaling(factor=factor, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=8192)
    config = _config(head_dim, 500_000.0, scaling)
    bounds = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    theirs = _of_transformers(config, {"rope_type": "llama3", "factor": factor, **bounds})
    assert _ulps_apart(inverse_frequencies(config), theirs) <= 1


def test_llama3_scaling_keeps_short_blends_middle_and_divides_long_wavelengths() -> None:
    # theta = 2 ** 8 and 4 pairs: frequencies 1, 1/4, 1/16, 1/64; wavelengths 6.3, 25.1, 100.5, 402.
    scaling = Llama3Scaling(factor=2.0, low_freq_factor=1.0, high_freq_factor=10.0, original_max_positions=200)
    found = inverse_frequencies(_config(8, 256.0, scaling))
    assert found[0] == 1.0  # 6.3 < 200 / 10
    assert found[3] == 1 / 128  # 402 > 200 / 1
    share = (200 / (2 * np.pi * 16) - 1) / 9
    np.testing.assert_allclose(found[2], (1 - share) / 32 + share / 16, rtol=1e-6)


def test_exact_powers_of_two_come_out_exact() -> None:
    found = inverse_frequencies(_config(8, 65536.0))
    np.testing.assert_array_equal(found, np.array([1, 1 / 16, 1 / 256, 1 / 4096], np.float32))


@pytest.mark.golden
def test_bits_do_not_depend_on_the_machine() -> None:
    found = inverse_frequencies(_config(16, 10_000.0))
    assert found.tobytes().hex() == "0000803f9be8a13ecdcccc3de386013d0ad7233c383e4f3b6f12833a60cba539"
