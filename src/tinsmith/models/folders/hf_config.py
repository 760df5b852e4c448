"""Conversion of a Hugging Face `config.json`, as a dictionary, to and from a `DecoderConfig`.

Reads the forms of transformers 4 (`rope_theta`, `rope_scaling`) and 5 (`rope_parameters`). Settings that this decoder
cannot compute are rejected, never ignored. This module touches no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tinsmith.models.config import LARGEST, DecoderConfig, Family, LinearScaling, Llama3Scaling, end_tokens_among
from tinsmith.models.folders.json_keys import Keys
from tinsmith.models.mixtures.settings import mixture_values, parse_mixture, refuse_shared_experts
from tinsmith.types.errors import ConfigError

ARCHITECTURES = {
    Family.LLAMA: "LlamaForCausalLM",
    Family.MISTRAL: "MistralForCausalLM",
    Family.QWEN2: "Qwen2ForCausalLM",
    Family.QWEN3: "Qwen3ForCausalLM",
    Family.QWEN3_MOE: "Qwen3MoeForCausalLM",
    Family.OLMOE: "OlmoeForCausalLM",
}

_ROPE_TYPES = "default, linear, llama3"
_ROPE_KEYS = frozenset(
    {"rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "low_freq_factor"}
    | {"high_freq_factor", "original_max_position_embeddings"}
)

# Defaults of transformers for absent keys.
_DEFAULT_THETA = 10_000.0
_DEFAULT_QWEN3_HEAD_DIM = 128
_DEFAULT_WINDOW = 4096
_DEFAULT_MAX_WINDOW_LAYERS = 28

_LAYER_TYPES = ("full_attention", "sliding_attention")
_BIASED = (Family.LLAMA, Family.QWEN3, Family.QWEN3_MOE, Family.OLMOE)
"""Families whose config has a key for biases of attention."""


def parse_config(
    values: Mapping[str, object], *, source: str, generation: Mapping[str, object] | None = None
) -> DecoderConfig:
    """Return the decoder that the contents of a config.json describe.

    `source` names the file in errors; `generation` is generation_config.json, whose end tokens are
    added to the config's own.

    Raises:
        ConfigError: for an architecture, activation or RoPE type that is not supported, or a value that is missing or
            invalid.
    """
    try:
        return _decoder(Keys(values, source), Keys(generation or {}, f"{source}, generation_config.json"))
    except ConfigError as error:
        if error.what.startswith(source):
            raise
        raise ConfigError(
            f"{source}: {error.what}", field=error.field, value=error.value, allowed=error.allowed
        ) from None


def config_values(config: DecoderConfig, *, dtype: str) -> dict[str, object]:
    """Return the contents of a config.json that describes `config`, weights stored as `dtype`.

    RoPE is written in both forms, so that no version of transformers falls back to its defaults.

    Raises:
        ConfigError: when `config`'s family cannot express it.
    """
    rope: dict[str, object] = {"rope_type": "default"}
    match config.rope_scaling:
        case None:
            pass
        case LinearScaling(factor=factor):
            rope = {"rope_type": "linear", "factor": factor}
        case Llama3Scaling() as scaling:
            rope = {
                "rope_type": "llama3",
                "factor": scaling.factor,
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.original_max_positions,
            }
    end_tokens = list(config.end_tokens)
    values: dict[str, object] = {
        "architectures": [ARCHITECTURES[config.family]],
        "model_type": config.family.value,
        "dtype": dtype,
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": rope if config.rope_scaling is not None else None,
        "rope_parameters": {**rope, "rope_theta": config.rope_theta},
        "tie_word_embeddings": config.tied,
        "bos_token_id": None,
        "eos_token_id": end_tokens[0] if len(end_tokens) == 1 else end_tokens or None,
    }
    if config.family in _BIASED:
        values["attention_bias"] = config.o_bias
    if config.family is Family.LLAMA:
        values["mlp_bias"] = config.mlp_bias
    if config.family is Family.MISTRAL:
        values["sliding_window"] = None
    values |= mixture_values(config)
    if parse_config(values, source="config.json") != config:
        raise ConfigError(
            "a config.json of this family cannot describe this decoder",
            field="family",
            value=config.family.value,
            fix="check the biases and norms against the family's",
        )
    return values


def _decoder(keys: Keys, generation: Keys) -> DecoderConfig:
    family = _family(keys)
    _refuse_other_functions(keys)
    num_heads = keys.count("num_attention_heads", LARGEST["num_heads"])
    theta, scaling = _rope(keys)
    biased = family in _BIASED and keys.flag("attention_bias")
    num_layers = keys.count("num_hidden_layers", LARGEST["num_layers"])
    vocab_size = keys.integer("vocab_size")
    return DecoderConfig(
        family=family,
        vocab_size=vocab_size,
        hidden_size=keys.integer("hidden_size"),
        intermediate_size=keys.integer("intermediate_size"),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=_num_kv_heads(keys, family, num_heads),
        head_dim=_head_dim(keys, family, num_heads),
        max_positions=_max_positions(keys, family),
        norm_eps=keys.number("rms_norm_eps"),
        rope_theta=theta,
        rope_scaling=scaling,
        qkv_bias=biased or family is Family.QWEN2,
        o_bias=biased,
        mlp_bias=family is Family.LLAMA and keys.flag("mlp_bias"),
        qk_norm=family in (Family.QWEN3, Family.QWEN3_MOE),
        tied=keys.flag("tie_word_embeddings"),
        end_tokens=end_tokens_among((*_end_tokens(keys), *_end_tokens(generation)), vocab_size),
        mixture=parse_mixture(keys, family, num_layers),
        qk_norm_whole=family is Family.OLMOE,
    )


def _family(keys: Keys) -> Family:
    allowed = ", ".join(ARCHITECTURES.values())
    model_type, named = keys.values.get("model_type"), keys.values.get("architectures")
    if model_type not in tuple(Family):
        refuse_shared_experts(keys)
        field = "architectures" if named and model_type is None else "model_type"
        raise keys.error("this architecture is not supported", field, allowed)
    family = Family(cast("str", model_type))
    if named and named != [ARCHITECTURES[family]]:
        raise keys.error("this architecture is not supported", "architectures", allowed)
    return family


def _refuse_other_functions(keys: Keys) -> None:
    if keys.values.get("hidden_act", "silu") != "silu":
        raise keys.error("this activation is not supported", "hidden_act", "silu")
    if keys.values.get("is_causal", True) is not True:
        raise keys.error("attention to later tokens is not supported", "is_causal", "true, or absent")
    kinds = keys.values.get("layer_types")
    if isinstance(kinds, list) and not all(kind in _LAYER_TYPES for kind in cast("list[object]", kinds)):
        raise keys.error("these layers are not supported", "layer_types", "full_attention, sliding_attention")
    if keys.values.get("quantization_config") is not None:
        raise keys.error(
            "quantised weights cannot be read",
            "quantization_config",
            "absent",
            "use the model's unquantised folder; the base can be held as NF4 by its adapter",
        )


def _num_kv_heads(keys: Keys, family: Family, num_heads: int) -> int:
    if family in (Family.LLAMA, Family.OLMOE) or "num_key_value_heads" in keys.values:
        return keys.integer("num_key_value_heads", num_heads)
    return keys.integer("num_key_value_heads")


def _head_dim(keys: Keys, family: Family, num_heads: int) -> int:
    if family is Family.QWEN3:
        return keys.integer("head_dim", _DEFAULT_QWEN3_HEAD_DIM)
    divisor = max(1, num_heads)  # zero heads are rejected with the other numbers
    if keys.values.get("head_dim") is None and keys.integer("hidden_size") % divisor:
        raise keys.error("heads do not divide this", "hidden_size", f"a multiple of {num_heads}")
    return keys.integer("head_dim", keys.integer("hidden_size") // divisor)


def _max_positions(keys: Keys, family: Family) -> int:
    """Cap the context at a sliding window: up to there, the window has no effect."""
    positions = keys.integer("max_position_embeddings")
    without = "sliding_window" in keys.values and keys.values["sliding_window"] is None
    if family in (Family.LLAMA, Family.OLMOE) or (family is Family.MISTRAL and without):
        return positions
    window = min(positions, keys.integer("sliding_window", _DEFAULT_WINDOW))
    if family is Family.MISTRAL:
        return window
    without = without or not keys.flag("use_sliding_window")
    if family is Family.QWEN3_MOE:  # a window in use applies to every layer
        return positions if without else window
    kinds = keys.values.get("layer_types")
    if isinstance(kinds, list):
        windowed = "sliding_attention" in kinds
        if windowed and without:
            raise keys.error("these layers need a window", "layer_types", "full_attention")
    else:
        first_windowed = keys.integer("max_window_layers", _DEFAULT_MAX_WINDOW_LAYERS)
        windowed = first_windowed < keys.integer("num_hidden_layers")
    return window if windowed and not without else positions


def _rope(keys: Keys) -> tuple[float, Llama3Scaling | LinearScaling | None]:
    """Return theta and scaling; `rope_scaling` takes precedence over `rope_parameters`, as in transformers."""
    rope = keys.section("rope_scaling") or keys.section("rope_parameters")
    outer_theta = keys.number("rope_theta", _DEFAULT_THETA)
    _refuse_partial_rotation(keys)
    if rope is None:
        return outer_theta, None
    unknown = sorted(set(rope.values) - _ROPE_KEYS)
    kind = rope.values.get("rope_type", rope.values.get("type", "default"))
    if kind not in ("default", "linear", "llama3"):
        field = "rope_type" if "rope_type" in rope.values else "type"
        fix = "a model meant to be used without its scaling too may have it set to null"
        raise rope.error("this RoPE type is not supported", field, _ROPE_TYPES, fix)
    if unknown:
        allowed = "the keys of " + _ROPE_TYPES
        raise rope.error("this RoPE setting is not supported", unknown[0], allowed)
    _refuse_partial_rotation(rope)
    theta = rope.number("rope_theta", outer_theta)
    if kind == "linear":
        return theta, LinearScaling(factor=rope.number("factor"))
    if kind == "llama3":
        # As in transformers, the key beside the section comes first.
        inner = rope.integer("original_max_position_embeddings", keys.integer("max_position_embeddings"))
        return theta, Llama3Scaling(
            factor=rope.number("factor"),
            low_freq_factor=rope.number("low_freq_factor"),
            high_freq_factor=rope.number("high_freq_factor"),
            original_max_positions=keys.integer("original_max_position_embeddings", inner),
        )
    return theta, None


def _refuse_partial_rotation(keys: Keys) -> None:
    if keys.number("partial_rotary_factor", 1.0) != 1.0:
        raise keys.error("part of a head cannot be rotated alone", "partial_rotary_factor", "1.0")


def _end_tokens(keys: Keys) -> tuple[int, ...]:
    value = keys.values.get("eos_token_id")
    tokens = cast("list[object]", value) if isinstance(value, list) else [value]
    ids = [token for token in tokens if token is not None]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
        raise keys.error("end tokens are token ids", "eos_token_id", "an integer or a list of them")
    return tuple(cast("list[int]", ids))
