"""Published config.json files, shortened to what determines the function, and what is refused; mixtures too."""

import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_tokenizers import byte_level, model_folder

from tinsmith.models.config import DecoderConfig, Family, LinearScaling, Llama3Scaling, Mixture
from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.folders.hf_config import config_values, parse_config
from tinsmith.models.presets import PRESETS
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.types.errors import CheckpointError, ConfigError

PUBLISHED = json.loads((Path(__file__).parents[1] / "published_configs.json").read_text())
LLAMA_3_1_8B: dict[str, Any] = PUBLISHED["llama_3_1_8b"]
QWEN2_5_0_5B: dict[str, Any] = PUBLISHED["qwen2_5_0_5b"]
QWEN3_0_6B: dict[str, Any] = PUBLISHED["qwen3_0_6b"]
MISTRAL_7B_V0_1: dict[str, Any] = PUBLISHED["mistral_7b_v0_1"]
QWEN3_30B_A3B: dict[str, Any] = PUBLISHED["qwen3_30b_a3b"]
OLMOE_1B_7B: dict[str, Any] = PUBLISHED["olmoe_1b_7b"]

LLAMA_3_1_SCALING = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=8192)


def _parse(values: dict[str, Any], **changes: Any) -> DecoderConfig:
    return parse_config({**values, **changes}, source="config.json")


def _without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def _experts(count: int, active: int, size: int, *, normalised: bool) -> Mixture:
    return Mixture(num_experts=count, num_active=active, expert_size=size, normalised=normalised)


SHAPE = (
    *("vocab_size", "hidden_size", "intermediate_size", "num_layers", "num_heads", "num_kv_heads", "head_dim"),
    *("max_positions", "norm_eps", "rope_theta"),
)


@pytest.mark.parametrize(
    ("values", "family", "shape", "others"),
    [
        (
            LLAMA_3_1_8B, Family.LLAMA, (128256, 4096, 14336, 32, 32, 8, 128, 131072, 1e-5, 500_000.0),
            {"rope_scaling": LLAMA_3_1_SCALING, "end_tokens": (128001, 128008, 128009)},
        ),
        (
            QWEN2_5_0_5B, Family.QWEN2, (151936, 896, 4864, 24, 14, 2, 64, 32768, 1e-6, 1e6),
            {"qkv_bias": True, "tied": True, "end_tokens": (151643,)},
        ),
        (
            QWEN3_0_6B, Family.QWEN3, (151936, 1024, 3072, 28, 16, 8, 128, 40960, 1e-6, 1e6),
            {"qk_norm": True, "tied": True, "end_tokens": (151645,)},
        ),
        (
            QWEN3_30B_A3B, Family.QWEN3_MOE, (151936, 2048, 6144, 48, 32, 4, 128, 40960, 1e-6, 1e6),
            {"qk_norm": True, "end_tokens": (151645,), "mixture": _experts(128, 8, 768, normalised=True)},
        ),
        (
            OLMOE_1B_7B, Family.OLMOE, (50304, 2048, 1024, 16, 16, 16, 128, 4096, 1e-5, 1e4),
            {"qk_norm_whole": True, "end_tokens": (50279,), "mixture": _experts(64, 8, 1024, normalised=False)},
        ),
    ],
    ids=["llama_3_1", "qwen2", "qwen3", "qwen3_moe", "olmoe"],
)  # fmt: skip
def test_a_published_file_is_the_decoder_that_it_describes(
    values: dict[str, Any], family: Family, shape: tuple[float, ...], others: dict[str, Any]
) -> None:
    expected: dict[str, Any] = dict(zip(SHAPE, shape, strict=True))
    assert _parse(values) == DecoderConfig(family=family, **expected, **others)


def test_mistral_is_capped_at_its_window() -> None:
    assert _parse(MISTRAL_7B_V0_1).max_positions == 4096
    assert _parse(MISTRAL_7B_V0_1, sliding_window=None).max_positions == 32768
    assert _parse(_without(MISTRAL_7B_V0_1, "sliding_window")).max_positions == 4096


@pytest.mark.parametrize(
    ("changes", "positions"),
    [
        ({"sliding_window": 1024}, 32768),
        ({"use_sliding_window": True, "sliding_window": 1024}, 32768),
        ({"use_sliding_window": True, "sliding_window": 1024, "max_window_layers": 20}, 1024),
        ({"use_sliding_window": True, "sliding_window": None, "max_window_layers": 20}, 32768),
        (
            {
                "use_sliding_window": True,
                "sliding_window": 1024,
                "layer_types": ["full_attention", "sliding_attention"],
            },
            1024,
        ),
    ],
)
def test_qwen_is_capped_only_where_a_layer_has_a_window(changes: dict[str, Any], positions: int) -> None:
    assert _parse(QWEN2_5_0_5B, **changes).max_positions == positions


def test_rope_parameters_of_transformers_5_are_the_old_keys_in_one() -> None:
    old = _without(LLAMA_3_1_8B, "rope_theta", "rope_scaling")
    parameters = {**LLAMA_3_1_8B["rope_scaling"], "rope_theta": 500000.0}
    assert _parse(old, rope_parameters=parameters) == _parse(LLAMA_3_1_8B)


def test_linear_scaling_is_read_by_its_oldest_name() -> None:
    config = _parse(MISTRAL_7B_V0_1, rope_scaling={"type": "linear", "factor": 2})
    assert config.rope_scaling == LinearScaling(factor=2.0)
    assert config.rope_theta == 10_000.0


def test_original_context_of_llama3_scaling_is_the_whole_context_by_default() -> None:
    rope = _without(LLAMA_3_1_8B["rope_scaling"], "original_max_position_embeddings")
    scaling = _parse(LLAMA_3_1_8B, rope_scaling=rope).rope_scaling
    assert scaling.original_max_positions == 131072


def test_llama_biases() -> None:
    attention = _parse(LLAMA_3_1_8B, attention_bias=True)
    assert (attention.qkv_bias, attention.o_bias, attention.mlp_bias) == (True, True, False)
    assert _parse(LLAMA_3_1_8B, mlp_bias=True).mlp_bias


def test_llama_without_key_heads_has_one_per_query_head() -> None:
    assert _parse(_without(LLAMA_3_1_8B, "num_key_value_heads")).num_kv_heads == 32


def test_end_tokens_of_generation_config_are_added() -> None:
    config = parse_config(QWEN2_5_0_5B, source="config.json", generation={"eos_token_id": [151645, 151643]})
    assert config.end_tokens == (151643, 151645)
    assert _parse(QWEN2_5_0_5B, eos_token_id=None).end_tokens == ()


@pytest.mark.parametrize(
    ("changes", "field", "allowed"),
    [
        ({"model_type": "gpt2"}, "model_type", "LlamaForCausalLM"),
        ({"model_type": None}, "architectures", "Qwen3ForCausalLM"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures", "Qwen2ForCausalLM"),
        ({"hidden_act": "gelu"}, "hidden_act", "silu"),
        ({"is_causal": False}, "is_causal", "true"),
        ({"is_causal": None}, "is_causal", "true"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "rope_type", "llama3"),
        ({"rope_scaling": {"type": "dynamic", "factor": 4.0}}, "type", "linear"),
        ({"rope_scaling": {"rope_type": "linear", "mscale": 1.0}}, "mscale", "default"),
        ({"rope_scaling": {"rope_type": "linear"}}, "factor", "a number"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, "factor", "> 0"),
        ({"rope_scaling": [1]}, "rope_scaling", "object"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor", "1.0"),
        ({"quantization_config": {"bits": 4}}, "quantization_config", "absent"),
        ({"layer_types": ["chunked_attention"]}, "layer_types", "full_attention"),
        ({"vocab_size": "many"}, "vocab_size", "integer"),
        ({"vocab_size": True}, "vocab_size", "integer"),
        ({"vocab_size": None}, "vocab_size", "integer"),
        ({"num_hidden_layers": 0}, "num_hidden_layers", "1 to"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers", "1 to"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps", "finite"),
        ({"rope_theta": "1e6"}, "rope_theta", "number"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings", "true or false"),
        ({"num_key_value_heads": 7}, "num_kv_heads", "divisor"),
        ({"head_dim": 63}, "head_dim", "even"),
        ({"hidden_size": 4095}, "hidden_size", "multiple of 32"),
        ({"eos_token_id": "</s>"}, "eos_token_id", "integer"),
        ({"eos_token_id": -1}, "end_tokens", ">= 0"),
    ],
)
def test_what_cannot_be_computed_is_refused(changes: dict[str, Any], field: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _parse(LLAMA_3_1_8B, **changes)
    assert caught.value.field == field
    assert allowed in str(caught.value.allowed)
    assert str(caught.value).startswith("config.json")


def test_an_original_context_beside_llama3_s_section_comes_before_the_one_in_it() -> None:
    assert _parse(LLAMA_3_1_8B, original_max_position_embeddings=4096, is_causal=True).rope_scaling == replace(
        LLAMA_3_1_SCALING, original_max_positions=4096
    )
    assert _parse(LLAMA_3_1_8B, original_max_position_embeddings=None).rope_scaling == LLAMA_3_1_SCALING
    linear = {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "original_max_position_embeddings": 4096}
    assert _parse(LLAMA_3_1_8B, **linear).rope_scaling == LinearScaling(factor=2.0)


def test_frequency_bounds_the_wrong_way_round_are_refused() -> None:
    rope = {**LLAMA_3_1_8B["rope_scaling"], "high_freq_factor": 1.0}
    with pytest.raises(ConfigError, match=r"high_freq_factor = 1\.0"):
        _parse(LLAMA_3_1_8B, rope_scaling=rope)


def test_mistral_and_qwen_must_name_their_key_heads() -> None:
    with pytest.raises(ConfigError, match="num_key_value_heads = 'absent'"):
        _parse(_without(QWEN3_0_6B, "num_key_value_heads"))


@pytest.mark.parametrize(
    "config",
    [
        *map(_parse, (LLAMA_3_1_8B, QWEN2_5_0_5B, QWEN3_0_6B, MISTRAL_7B_V0_1, QWEN3_30B_A3B, OLMOE_1B_7B)),
        _parse(QWEN3_30B_A3B, mlp_only_layers=[1, 7], attention_bias=True),
        _parse(OLMOE_1B_7B, norm_topk_prob=True),
        PRESETS["moe-nano"],
    ],
)
def test_what_is_written_is_read_back(config: DecoderConfig) -> None:
    assert parse_config(config_values(config, dtype="float32"), source="config.json") == config


@pytest.mark.parametrize(
    ("values", "changes"),
    [
        (MISTRAL_7B_V0_1, {"o_bias": True}),
        (OLMOE_1B_7B, {"intermediate_size": 96}),
        (OLMOE_1B_7B, {"qk_norm_whole": False}),
    ],
)
def test_a_decoder_its_family_cannot_describe_is_not_written(values: dict[str, Any], changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="cannot describe this decoder"):
        config_values(replace(_parse(values), **changes), dtype="float32")


@pytest.mark.parametrize("value", [0, -1, 2**31, 2**62, 10**400, "4", 1.5, True, [], {}, [[]]])
@pytest.mark.parametrize(
    "field",
    [
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
        *("num_key_value_heads", "head_dim", "max_position_embeddings"),
    ],
)
def test_a_number_out_of_proportion_is_refused_before_anything_is_made_of_it(field: str, value: object) -> None:
    for config in (LLAMA_3_1_8B, QWEN2_5_0_5B, QWEN3_0_6B):
        with pytest.raises(ConfigError, match="a/config"):
            parse_config({**config, field: value}, source="a/config.json")


@pytest.mark.parametrize("value", [10**400, "1", [], {"a": []}, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["rope_theta", "rms_norm_eps"])
def test_a_number_that_is_no_float_is_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match="a/config"):
        parse_config({**QWEN3_0_6B, field: value}, source="a/config.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("whole") / "model", byte_level(added=["straße"]))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json"])
def test_a_file_with_a_key_twice_is_refused_by_the_key(folder: Path, name: str) -> None:
    file = folder / name
    text = file.read_text()
    key = next(iter(json.loads(text)))
    file.write_text(text.replace("{", f'{{"{key}": null, ', 1))
    with pytest.raises(ConfigError, match=f"{key}"):
        (read_config if name == "config.json" else load_tokenizer)(folder)


def test_a_header_that_names_a_tensor_twice_is_refused(folder: Path) -> None:
    file = folder / "model.safetensors"
    content = file.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    name = next(key for key in header if key != "__metadata__")
    twice = json.dumps({"x": header[name], **header}).replace('"x"', f'"{name}"', 1).encode()
    file.write_bytes(struct.pack("<Q", len(twice)) + twice + content[8 + size :])
    with pytest.raises(CheckpointError, match=name):
        read_weights(folder, read_config(folder))


def _dropout(values: Any) -> None:
    values["model"]["dropout"] = 0.5


def _shared_id(values: Any) -> None:
    values["model"]["vocab"]["a"] = values["model"]["vocab"]["b"]


def _moved(values: Any) -> None:
    values["added_tokens"][1]["id"] = 200


def _renamed(values: Any) -> None:
    values["added_tokens"][1]["content"] = "<|renamed|>"


@pytest.mark.parametrize(
    ("change", "message"),
    [(_dropout, "dropout"), (_shared_id, "two tokens have one id"), (_moved, "= 200"), (_renamed, "renamed")],
)
def test_a_tokenizer_that_would_be_another_than_its_file_says_is_refused(
    folder: Path, change: Callable[[Any], None], message: str
) -> None:
    file = folder / "tokenizer.json"
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=message):
        load_tokenizer(folder)


def _mixture(values: dict[str, Any], **changes: Any) -> Mixture:
    mixture = _parse(values, **changes).mixture
    assert mixture is not None
    return mixture


def test_the_count_of_experts_is_read_by_the_name_that_transformers_5_saves() -> None:
    assert _mixture(_without(QWEN3_30B_A3B, "num_experts"), num_local_experts=128) == _mixture(QWEN3_30B_A3B)


def test_weights_are_not_normalised_where_the_file_is_silent() -> None:
    assert not _mixture(_without(QWEN3_30B_A3B, "norm_topk_prob")).normalised
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
    ("values", "field", "value"),
    [
        (QWEN3_0_6B, "layer_types", ["sliding_attention"]),
        (QWEN3_0_6B, "layer_types", [["full_attention"]]),
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
