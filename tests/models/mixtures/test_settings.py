"""Published config.json files of mixtures, shortened to what determines the function, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tinsmith.models.config import DecoderConfig, Family, Mixture
from tinsmith.models.folders.hf_config import config_values, parse_config
from tinsmith.models.presets import PRESETS
from tinsmith.types.errors import ConfigError

PUBLISHED = json.loads((Path(__file__).parents[1] / "published_configs.json").read_text())
QWEN3_30B_A3B: dict[str, Any] = PUBLISHED["qwen3_30b_a3b"]
OLMOE_1B_7B: dict[str, Any] = PUBLISHED["olmoe_1b_7b"]


def _parse(values: dict[str, Any], **changes: Any) -> DecoderConfig:
    return parse_config({**values, **changes}, source="config.json")


def _mixture(values: dict[str, Any], **changes: Any) -> Mixture:
    mixture = _parse(values, **changes).mixture
    assert mixture is not None
    return mixture


def test_qwen3_moe() -> None:
    assert _parse(QWEN3_30B_A3B) == DecoderConfig(
        family=Family.QWEN3_MOE,
        vocab_size=151936,
        hidden_size=2048,
        intermediate_size=6144,
        num_layers=48,
        num_heads=32,
        num_kv_heads=4,
        head_dim=128,
        max_positions=40960,
        norm_eps=1e-6,
        rope_theta=1e6,
        qk_norm=True,
        end_tokens=(151645,),
        mixture=Mixture(num_experts=128, num_active=8, expert_size=768, normalised=True),
    )


def test_olmoe_norms_q_and_k_over_all_heads_and_leaves_weights_as_they_are() -> None:
    assert _parse(OLMOE_1B_7B) == DecoderConfig(
        family=Family.OLMOE,
        vocab_size=50304,
        hidden_size=2048,
        intermediate_size=1024,
        num_layers=16,
        num_heads=16,
        num_kv_heads=16,
        head_dim=128,
        max_positions=4096,
        norm_eps=1e-5,
        rope_theta=1e4,
        qk_norm_whole=True,
        end_tokens=(50279,),
        mixture=Mixture(num_experts=64, num_active=8, expert_size=1024, normalised=False),
    )


def test_the_count_of_experts_is_read_by_the_name_that_transformers_5_saves() -> None:
    values = {key: value for key, value in QWEN3_30B_A3B.items() if key != "num_experts"}
    assert _mixture(values, num_local_experts=128) == _mixture(QWEN3_30B_A3B)


def test_weights_are_not_normalised_where_the_file_is_silent() -> None:
    values = {key: value for key, value in QWEN3_30B_A3B.items() if key != "norm_topk_prob"}
    assert not _mixture(values).normalised
    assert _mixture(OLMOE_1B_7B, norm_topk_prob=True).normalised


@pytest.mark.parametrize(
    ("changes", "dense"),
    [
        ({"mlp_only_layers": [5, 0]}, (0, 5)),
        ({"num_hidden_layers": 6, "decoder_sparse_step": 2}, (0, 2, 4)),
        ({"num_hidden_layers": 6, "decoder_sparse_step": 3, "mlp_only_layers": [2]}, (0, 1, 2, 3, 4)),
        ({"mlp_only_layers": None}, ()),
    ],
)
def test_some_layers_may_be_dense(changes: dict[str, Any], dense: tuple[int, ...]) -> None:
    assert _mixture(QWEN3_30B_A3B, **changes).dense_layers == dense


def test_a_window_that_is_used_is_that_of_every_layer() -> None:
    assert _parse(QWEN3_30B_A3B, sliding_window=1024).max_positions == 40960
    windowed = _parse(QWEN3_30B_A3B, sliding_window=1024, use_sliding_window=True)
    assert windowed.max_positions == 1024


@pytest.mark.parametrize(
    "config",
    [
        _parse(QWEN3_30B_A3B),
        _parse(QWEN3_30B_A3B, mlp_only_layers=[1, 7], attention_bias=True),
        _parse(OLMOE_1B_7B),
        _parse(OLMOE_1B_7B, norm_topk_prob=True),
        PRESETS["moe-nano"],
    ],
    ids=["qwen3_moe", "dense_layers", "olmoe", "olmoe_normalised", "moe-nano"],
)
def test_what_is_written_is_read_back(config: DecoderConfig) -> None:
    assert parse_config(config_values(config, dtype="float32"), source="config.json") == config


def test_a_decoder_that_the_family_cannot_say_is_not_written() -> None:
    olmoe = _parse(OLMOE_1B_7B)
    for other in (replace(olmoe, intermediate_size=96), replace(olmoe, qk_norm_whole=False)):
        with pytest.raises(ConfigError, match="cannot describe this decoder"):
            config_values(other, dtype="float32")


@pytest.mark.parametrize(
    ("values", "field", "value"),
    [
        (QWEN3_30B_A3B, "shared_expert_intermediate_size", 512),
        (QWEN3_30B_A3B, "n_shared_experts", 1),
        (OLMOE_1B_7B, "num_shared_experts", 2),
        (QWEN3_30B_A3B, "n_group", 8),
        (QWEN3_30B_A3B, "topk_group", 4),
        (QWEN3_30B_A3B, "scoring_func", "sigmoid"),
        (QWEN3_30B_A3B, "routed_scaling_factor", 2.5),
        (OLMOE_1B_7B, "clip_qkv", 8.0),
        (QWEN3_30B_A3B, "num_experts", 0),
        (QWEN3_30B_A3B, "num_experts", None),
        (QWEN3_30B_A3B, "num_local_experts", 64),
        (QWEN3_30B_A3B, "num_experts_per_tok", "8"),
        (QWEN3_30B_A3B, "moe_intermediate_size", None),
        (QWEN3_30B_A3B, "norm_topk_prob", 1),
        (QWEN3_30B_A3B, "mlp_only_layers", [48]),
        (QWEN3_30B_A3B, "mlp_only_layers", "0"),
        (QWEN3_30B_A3B, "decoder_sparse_step", 0),
        (OLMOE_1B_7B, "hidden_act", "gelu"),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(values: dict[str, Any], field: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        _parse(values, **{field: value})
    assert caught.value.field == field


def test_a_token_cannot_take_more_experts_than_there_are() -> None:
    with pytest.raises(ConfigError, match="more experts than there are"):
        _parse(OLMOE_1B_7B, num_experts_per_tok=65)


def test_shared_experts_are_refused_by_name_in_families_that_are_not_read() -> None:
    values = {**QWEN3_30B_A3B, "model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"]}
    with pytest.raises(ConfigError, match="shared experts"):
        _parse(values, shared_expert_intermediate_size=5632)
    with pytest.raises(ConfigError, match="architecture"):
        _parse(values)
