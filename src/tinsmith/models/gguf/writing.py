"""A model as one GGUF file that llama.cpp loads: shape, weights, tokenizer and chat template."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, RopeScalingType
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.models.config import DecoderConfig, Family, LinearScaling, Llama3Scaling, Mixture
from tinsmith.models.gguf.config import LLAMA3_BOUNDS, NORMALISED
from tinsmith.models.gguf.file import Value
from tinsmith.models.gguf.layout import ARCHITECTURES, ROPE_FACTORS, file_places, interleaved, rotated_heads
from tinsmith.models.names import ROUTER
from tinsmith.models.rotary import inverse_frequencies
from tinsmith.types.disk import writing
from tinsmith.types.errors import CheckpointError, ConfigError


class StoredAs(StrEnum):
    """Type of a file's matrices; norms and biases are fp32 in any."""

    F32 = "f32"
    F16 = "f16"


_TYPES: Final = {
    StoredAs.F32: (GGMLQuantizationType.F32, LlamaFileType.ALL_F32),
    StoredAs.F16: (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
}


def write_gguf(
    path: Path,
    config: DecoderConfig,
    weights: Mapping[str, Tensor],
    tokenizer: Mapping[str, Value],
    *,
    stored_as: StoredAs,
    name: str,
) -> None:
    """Write a file that appears whole or not at all; `tokenizer` are its metadata keys `tokenizer...`.

    Raises:
        ConfigError: something is at `path`, or the format cannot express the decoder.
        CheckpointError: a weight is out of fp16's range.
    """
    if path.exists():
        raise ConfigError(
            "there is already something at this place", field="path", value=str(path), fix="name a new file"
        )
    _refuse_what_it_lacks(config)
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path), tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as staging:
        whole = Path(staging) / path.name
        writer = GGUFWriter(whole, _architecture(config))
        try:
            _add_shape(writer, config, name, stored_as)
            for key, value in tokenizer.items():
                _add(writer, key, value)
            for stored, values in _tensors(config, weights, stored_as):
                writer.add_tensor(stored, values)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
        finally:
            writer.close()
        whole.replace(path)


def stored_values(name: str, values: NDArray[np.float32], stored_as: StoredAs) -> NDArray[np.generic]:
    """Return a published tensor's values for the file: fp32 for a router or a vector, otherwise the requested type."""
    matrix = values.ndim >= 2 and not name.endswith(f".{ROUTER}.weight")
    if matrix and stored_as is StoredAs.F16:
        with np.errstate(over="ignore"):
            return values.astype(np.float16)
    return values


def _architecture(config: DecoderConfig) -> str:
    family = Family.LLAMA if config.family is Family.MISTRAL else config.family
    return next(name for name, each in ARCHITECTURES.items() if each is family)


def _refuse_what_it_lacks(config: DecoderConfig) -> None:
    """Reject what llama.cpp has no tensor for in this architecture: it would not load the file, or leave it out.

    Source: `load_arch_tensors` of llama.cpp's src/models.

    Raises:
        ConfigError: naming the setting.
    """
    if config.family in (Family.LLAMA, Family.MISTRAL):
        return
    norms, hidden = config.qk_norm_whole, config.hidden_size
    square = norms or config.family is Family.QWEN2
    for field, value, lacking, allowed in (
        ("attention_bias", True, config.o_bias, "false"),
        ("rope_scaling", config.rope_scaling, isinstance(config.rope_scaling, Llama3Scaling), "default, linear"),
        ("tie_word_embeddings", True, norms and config.tied, "false"),
        ("head_dim", config.head_dim, square and config.q_size != hidden, f"heads of {hidden} channels in all"),
        ("num_key_value_heads", config.num_kv_heads, norms and config.kv_size != hidden, str(config.num_heads)),
    ):
        if lacking:
            raise ConfigError(
                f"llama.cpp has no place for this in a file of {_architecture(config)}",
                field=field,
                value=value,
                allowed=allowed,
                fix="export it as a folder: --to merged",
            )


def _add_mixture(writer: GGUFWriter, config: DecoderConfig, mixture: Mixture) -> None:
    """Write a mixture's settings.

    Raises:
        ConfigError: llama.cpp would compute something else.
    """
    allowed = NORMALISED[config.family]
    if mixture.normalised is not allowed or mixture.dense_layers:
        field = "dense_layers" if mixture.dense_layers else "norm_topk_prob"
        raise ConfigError(
            "a GGUF file of this architecture has no way to say this",
            field=field,
            value=mixture.dense_layers or mixture.normalised,
            allowed="none" if mixture.dense_layers else str(allowed),
            fix="export it as a folder: --to merged",
        )
    writer.add_expert_count(mixture.num_experts)
    writer.add_expert_used_count(mixture.num_active)
    writer.add_expert_feed_forward_length(mixture.expert_size)


def _add_shape(writer: GGUFWriter, config: DecoderConfig, name: str, stored_as: StoredAs) -> None:
    if config.mixture is not None:
        _add_mixture(writer, config, config.mixture)
    writer.add_name(name)
    writer.add_file_type(_TYPES[stored_as][1])
    writer.add_context_length(config.max_positions)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_vocab_size(config.vocab_size)
    if isinstance(config.rope_scaling, LinearScaling):
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.rope_scaling.factor)
    if isinstance(config.rope_scaling, Llama3Scaling):
        writer.add_rope_scaling_orig_ctx_len(config.rope_scaling.original_max_positions)


def _add(writer: GGUFWriter, key: str, value: Value) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def _tensors(
    config: DecoderConfig, weights: Mapping[str, Tensor], stored_as: StoredAs
) -> Iterator[tuple[str, NDArray[np.generic]]]:
    if isinstance(config.rope_scaling, Llama3Scaling):
        yield ROPE_FACTORS, _rope_factors(config, config.rope_scaling)
    together: dict[str, list[str]] = {}
    for name, place in file_places(config).items():
        together.setdefault(place.name, []).append(name)
    for stored, names in together.items():
        values = [weights[name].detach().cpu().numpy().astype(np.float32, copy=False) for name in names]
        whole = np.stack(values) if stored.endswith("_exps.weight") else values[0]
        heads = rotated_heads(names[0], config)
        encoded = stored_values(names[0], interleaved(whole, heads) if heads else whole, stored_as)
        if not np.isfinite(encoded).all():
            raise CheckpointError(
                "a weight is not finite, or too large for fp16",
                field=names[0],
                value=stored_as.value,
                fix="export as f32" if np.isfinite(whole).all() else None,
            )
        yield stored, np.ascontiguousarray(encoded)


def _rope_factors(config: DecoderConfig, scaling: Llama3Scaling) -> NDArray[np.float32]:
    """Return the divisors of the plain frequencies.

    Raises:
        ConfigError: the settings cannot be recovered from the factors.
    """
    if (scaling.low_freq_factor, scaling.high_freq_factor) != LLAMA3_BOUNDS:
        raise ConfigError(
            "a GGUF file does not keep these bounds of llama3's rotation",
            field="low_freq_factor, high_freq_factor",
            value=(scaling.low_freq_factor, scaling.high_freq_factor),
            allowed=str(LLAMA3_BOUNDS),
        )
    plain = inverse_frequencies(replace(config, rope_scaling=None))
    factors = (plain / inverse_frequencies(config)).astype(np.float32)
    if factors.max() > 1 and not np.isclose(factors.max(), scaling.factor):
        raise ConfigError(
            "a GGUF file does not keep a factor by which no channel's rotation is slowed in full",
            field="factor",
            value=scaling.factor,
            allowed=f"an original context below {scaling.original_max_positions} positions, or a larger theta",
        )
    return factors
