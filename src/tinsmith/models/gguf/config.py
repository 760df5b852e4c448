"""Decoder described by a GGUF file's metadata; unsupported settings are rejected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.models.config import DecoderConfig, Family, LinearScaling, Llama3Scaling, Mixture
from tinsmith.models.gguf.ends import end_tokens
from tinsmith.models.gguf.file import GgufFile
from tinsmith.models.gguf.layout import ARCHITECTURES
from tinsmith.models.rotary import inverse_frequencies
from tinsmith.types.errors import ConfigError

SUPPORTED: Final = "llama (Llama, Mistral, SmolLM2), qwen2 (Qwen2, Qwen2.5), qwen3 (Qwen3), qwen3moe, olmoe"

_DEFAULT_THETA: Final = 10_000.0
NORMALISED: Final = {Family.QWEN3_MOE: True, Family.OLMOE: False}
"""Mixtures, with True if llama.cpp divides a token's expert weights by their sum; the architecture determines it."""
_SHARED: Final = ("expert_shared_count", "expert_shared_feed_forward_length")
_NEUTRAL: Final[dict[str, tuple[float, ...]]] = {
    "expert_gating_func": (0, 1),
    "expert_weights_scale": (0.0, 1.0),
    "expert_group_count": (0, 1),
    "leading_dense_block_count": (0,),
    "attention.clamp_kqv": (0.0,),
}
"""Settings of other mixtures, with their neutral values; a gating function of 1 is a softmax."""
LLAMA3_BOUNDS: Final = (1.0, 4.0)
"""Published low_freq_factor and high_freq_factor: a file stores only the factors that follow from them."""
_LLAMA3_LENGTHS: Final = tuple(2**n for n in (13, 12, 11, 14, 15, 16, 17))
"""Context lengths before a model's rotation was extended; the published one first."""


def parse_gguf_config(file: GgufFile, rope_factors: NDArray[np.float32] | None) -> DecoderConfig:
    """Return the decoder that a file describes; `rope_factors` is its tensor of that name.

    Raises:
        ConfigError: an architecture or a rotation that is not supported, or a key that is missing.
    """
    keys = _Keys(file)
    family = keys.family()
    if file.metadata.get(keys.spelled("attention.causal"), True) is not True:
        raise keys.error("this model reads texts in both directions", keys.spelled("attention.causal"), "true")
    bare = DecoderConfig(
        family=family,
        vocab_size=keys.vocab_size(),
        hidden_size=keys.size("embedding_length"),
        intermediate_size=keys.size("feed_forward_length"),
        num_layers=keys.num_layers(),
        num_heads=keys.integer("attention.head_count"),
        num_kv_heads=keys.integer("attention.head_count_kv", keys.integer("attention.head_count")),
        head_dim=keys.head_dim(),
        max_positions=keys.max_positions(),
        norm_eps=keys.number("attention.layer_norm_rms_epsilon"),
        rope_theta=keys.number("rope.freq_base", _DEFAULT_THETA),
        rope_scaling=keys.linear_scaling(),
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        o_bias="blk.0.attn_output.bias" in file.tensors,
        mlp_bias="blk.0.ffn_up.bias" in file.tensors,
        qk_norm=family in (Family.QWEN3, Family.QWEN3_MOE),
        tied="output.weight" not in file.tensors,
        end_tokens=end_tokens(file.metadata, keys.vocab_size()),
        mixture=keys.mixture(family),
        qk_norm_whole=family is Family.OLMOE,
    )
    if rope_factors is None:
        return bare
    return _with_llama3(bare, rope_factors, keys)


@dataclass(frozen=True, slots=True)
class _Keys:
    """Metadata with errors that name file and key."""

    file: GgufFile

    def family(self) -> Family:
        named = self.file.metadata.get("general.architecture")
        if not isinstance(named, str) or named not in ARCHITECTURES:
            raise self.error("this architecture is not supported", "general.architecture", SUPPORTED)
        family = ARCHITECTURES[named]
        if self.integer("expert_count", 0) and family not in NORMALISED:
            raise self.error(
                "mixtures of this architecture are not supported", self.spelled("expert_count"), "qwen3moe, olmoe"
            )
        return family

    def mixture(self, family: Family) -> Mixture | None:
        if family not in NORMALISED:
            return None
        for key in _SHARED:
            if self.integer(key, 0):
                raise self.error("shared experts are not supported", self.spelled(key), "0")
        for key, neutral in _NEUTRAL.items():
            if self.number(key, neutral[0]) not in neutral:
                raise self.error("this setting is not supported", self.spelled(key), str(neutral))
        normed = self.spelled("expert_weights_norm")
        return Mixture(
            num_experts=self.num_experts(),
            num_active=self.integer("expert_used_count"),
            expert_size=self.integer(
                "expert_feed_forward_length", self.integer("feed_forward_length") if family is Family.OLMOE else None
            ),
            normalised=bool(self.file.metadata.get(normed, NORMALISED[family])),
        )

    def spelled(self, key: str) -> str:
        return f"{self.file.metadata['general.architecture']}.{key}"

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.file.metadata.get(self.spelled(key), default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error("a whole number is needed here", self.spelled(key), "a whole number")
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """Return a number of channels or experts, checked to be the size of some tensor before it is used."""
        value, largest = self.integer(key, default), self.largest()
        if value > largest:
            raise self.error("no tensor of this file is as large", self.spelled(key), f"at most {largest}")
        return value

    def largest(self) -> int:
        return max(max(tensor.shape) for tensor in self.file.tensors.values())

    def num_experts(self) -> int:
        value, shapes = self.integer("expert_count"), [tensor.shape for tensor in self.file.tensors.values()]
        most = max((shape[0] for shape in shapes if len(shape) == 3), default=0)
        if value > most:
            raise self.error("an expert is missing in every layer", self.spelled("expert_count"), f"at most {most}")
        return value

    def num_layers(self) -> int:
        value, most = self.integer("block_count"), len(self.file.tensors)
        if value > most:
            raise self.error("this file has fewer tensors than layers", self.spelled("block_count"), f"at most {most}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.file.metadata.get(self.spelled(key), default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error("a number is needed here", self.spelled(key), "a number")
        return _shortest(value)

    def vocab_size(self) -> int:
        embedding = self.file.tensors.get("token_embd.weight")
        if embedding is None:
            raise self.error("this file has no embedding", "token_embd.weight", "a tensor")
        return embedding.shape[0]

    def head_dim(self) -> int:
        heads, hidden = self.integer("attention.head_count"), self.integer("embedding_length")
        if heads <= 0 or (hidden % heads and self.spelled("attention.key_length") not in self.file.metadata):
            key = self.spelled("attention.head_count")
            raise self.error("heads do not divide the width", key, f"a divisor of {hidden}")
        size = self.size("attention.key_length", hidden // heads)
        for key in ("attention.value_length", "rope.dimension_count"):
            if self.integer(key, size) != size:
                raise self.error("a head has one size here", self.spelled(key), str(size))
        return size

    def max_positions(self) -> int:
        """Return the context, capped at a sliding window: up to there, the window has no effect."""
        positions = self.integer("context_length")
        return min(positions, self.integer("attention.sliding_window", positions) or positions)

    def linear_scaling(self) -> LinearScaling | None:
        factor = self.number("rope.scaling.factor", self.number("rope.scale_linear", 1.0))
        turned = "rope.scaling.attn_factor"
        if self.number(turned, 1.0) != 1.0:
            raise self.error(
                "llama.cpp scales queries and keys by this, which is not supported", self.spelled(turned), "1"
            )
        key = "rope.scaling.type"
        kind = self.file.metadata.get(self.spelled(key), "linear" if factor != 1.0 else "none")
        if kind not in ("none", "linear"):
            raise self.error("this rotation is not supported", self.spelled(key), "none, linear")
        return LinearScaling(factor=factor) if kind == "linear" and factor != 1.0 else None

    def error(self, what: str, key: str, allowed: str) -> ConfigError:
        return ConfigError(f"{self.file.path}: {what}", field=key, value=self.file.metadata.get(key), allowed=allowed)


def _with_llama3(bare: DecoderConfig, factors: NDArray[np.float32], keys: _Keys) -> DecoderConfig:
    """Infer the published settings from the factors: a folder of the same model has the settings instead.

    Raises:
        ConfigError: they match no settings.
    """
    if np.array_equal(factors, np.ones_like(factors)):
        return bare
    plain = inverse_frequencies(bare)
    stated = keys.integer("rope.scaling.original_context_length", 0)
    for length in (stated,) if stated else _LLAMA3_LENGTHS:
        scaling = Llama3Scaling(
            factor=_shortest(float(factors.max())),
            low_freq_factor=LLAMA3_BOUNDS[0],
            high_freq_factor=LLAMA3_BOUNDS[1],
            original_max_positions=length,
        )
        found = replace(bare, rope_scaling=scaling)
        if factors.shape == plain.shape and np.allclose(
            plain / inverse_frequencies(found), factors, rtol=1e-5, atol=0.0
        ):
            return found
    raise keys.error("this rotation is not supported", "rope_freqs.weight", "the factors of llama3")


def _shortest(value: float) -> float:
    """Return the shortest decimal that rounds to the same float32: 1e-5 for a stored 9.999999747e-06."""
    if isinstance(value, int):
        return value
    return float(str(np.float32(value)))
