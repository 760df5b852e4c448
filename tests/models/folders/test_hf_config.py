"""Published config.json files, shortened to what determines the function, and what is refused."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_tokenizers import byte_level, model_folder

from tinsmith.models.config import DecoderConfig, Family, LinearScaling, Llama3Scaling
from tinsmith.models.folders.folder import read_weights
from tinsmith.models.folders.folder_config import read_config
from tinsmith.models.folders.hf_config import config_values, parse_config
from tinsmith.renderers.tokenizer import load_tokenizer
from tinsmith.types.errors import CheckpointError, ConfigError

PUBLISHED = json.loads((Path(__file__).parents[1] / "published_configs.json").read_text())
LLAMA_3_1_8B: dict[str, Any] = PUBLISHED["llama_3_1_8b"]
QWEN2_5_0_5B: dict[str, Any] = PUBLISHED["qwen2_5_0_5b"]
QWEN3_0_6B: dict[str, Any] = PUBLISHED["qwen3_0_6b"]
MISTRAL_7B_V0_1: dict[str, Any] = PUBLISHED["mistral_7b_v0_1"]

LLAMA_3_1_SCALING = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_positions=8192)


def _parse(values: dict[str, Any], **changes: Any) -> DecoderConfig:
    return parse_config({**values, **changes}, source="config.json")


def _without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}


def test_llama_3_1() -> None:
    assert _parse(LLAMA_3_1_8B) == DecoderConfig(
        family=Family.LLAMA,
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_layers=32,
        num_heads=32,
        num_kv_heads=8,
        head_dim=128,
        max_positions=131072,
        norm_eps=1e-5,
        rope_theta=500_000.0,
        rope_scaling=LLAMA_3_1_SCALING,
        end_tokens=(128001, 128008, 128009),
    )


def test_qwen2_has_query_key_and_value_biases_and_an_unused_window() -> None:
    assert _parse(QWEN2_5_0_5B) == DecoderConfig(
        family=Family.QWEN2,
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_layers=24,
        num_heads=14,
        num_kv_heads=2,
        head_dim=64,
        max_positions=32768,
        norm_eps=1e-6,
        rope_theta=1e6,
        qkv_bias=True,
        tied=True,
        end_tokens=(151643,),
    )


def test_qwen3_has_query_and_key_norms_and_a_head_width_of_its_own() -> None:
    assert _parse(QWEN3_0_6B) == DecoderConfig(
        family=Family.QWEN3,
        vocab_size=151936,
        hidden_size=1024,
        intermediate_size=3072,
        num_layers=28,
        num_heads=16,
        num_kv_heads=8,
        head_dim=128,
        max_positions=40960,
        norm_eps=1e-6,
        rope_theta=1e6,
        qk_norm=True,
        tied=True,
        end_tokens=(151645,),
    )


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
    assert isinstance(scaling, Llama3Scaling)
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


def test_frequency_bounds_the_wrong_way_round_are_refused() -> None:
    rope = {**LLAMA_3_1_8B["rope_scaling"], "high_freq_factor": 1.0}
    with pytest.raises(ConfigError, match=r"high_freq_factor = 1\.0"):
        _parse(LLAMA_3_1_8B, rope_scaling=rope)


def test_windowed_layers_without_a_window_are_refused() -> None:
    with pytest.raises(ConfigError, match="layer_types"):
        _parse(QWEN3_0_6B, layer_types=["sliding_attention"])


def test_mistral_and_qwen_must_name_their_key_heads() -> None:
    with pytest.raises(ConfigError, match="num_key_value_heads = 'absent'"):
        _parse(_without(QWEN3_0_6B, "num_key_value_heads"))


@pytest.mark.parametrize(
    "values", [LLAMA_3_1_8B, QWEN2_5_0_5B, QWEN3_0_6B, MISTRAL_7B_V0_1], ids=lambda v: v["model_type"]
)
def test_written_values_say_the_same(values: dict[str, Any]) -> None:
    config = _parse(values)
    assert parse_config(config_values(config, dtype="float32"), source="config.json") == config


def test_a_decoder_its_family_cannot_describe_is_not_written() -> None:
    config = _parse(MISTRAL_7B_V0_1)
    odd = DecoderConfig(
        family=config.family,
        vocab_size=8,
        hidden_size=8,
        intermediate_size=8,
        num_layers=1,
        num_heads=1,
        num_kv_heads=1,
        head_dim=8,
        max_positions=8,
        norm_eps=1e-5,
        rope_theta=1e4,
        o_bias=True,
    )
    with pytest.raises(ConfigError, match="cannot describe"):
        config_values(odd, dtype="float32")


@pytest.mark.parametrize("value", [0, -1, 2**31, 2**62, 10**400, "4", 1.5, True, [], {}, [[]]])
@pytest.mark.parametrize(
    "field",
    [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "max_position_embeddings",
    ],
)
def test_a_number_out_of_proportion_is_refused_before_anything_is_made_of_it(field: str, value: object) -> None:
    for config in (LLAMA_3_1_8B, QWEN2_5_0_5B, QWEN3_0_6B):
        with pytest.raises(ConfigError, match="a/config"):
            parse_config({**config, field: value}, source="a/config.json")


@pytest.mark.parametrize("value", [10**400, "1", [], {"a": []}, -1.0, float("nan")])
@pytest.mark.parametrize("field", ["rope_theta", "rms_norm_eps"])
def test_a_number_that_is_no_float_is_refused(field: str, value: object) -> None:
    with pytest.raises(ConfigError, match="a/config"):
        parse_config({**QWEN3_0_6B, field: value}, source="a/config.json")


def test_layer_types_that_are_no_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="layer_types"):
        parse_config({**QWEN3_0_6B, "layer_types": [["full_attention"]]}, source="a/config.json")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_folder(tmp_path_factory.mktemp("whole") / "model", byte_level(added=["straße"]))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_hidden_layers", 10**9),
        ("vocab_size", 10**12),
        ("max_position_embeddings", 10**10),
        ("rms_norm_eps", float("inf")),
        ("rope_theta", float("inf")),
    ],
)
def test_a_config_out_of_proportion_is_refused_by_name(folder: Path, field: str, value: float) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), field: value}))
    with pytest.raises(ConfigError) as caught:
        read_config(folder)
    assert caught.value.value == value


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
