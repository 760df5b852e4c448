"""Shape of a decoder: the numbers that, with its weights, determine its function."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import LATER

_MOST_PARTS = 1 << 17
"""Most layers, each counted with all its experts, since their names are listed before any weight is read."""


class Family(StrEnum):
    """Supported architectures, by `model_type` of a Hugging Face config."""

    LLAMA = "llama"
    QWEN2 = "qwen2"
    QWEN3 = "qwen3"
    MISTRAL = "mistral"
    QWEN3_MOE = "qwen3_moe"
    OLMOE = "olmoe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """RoPE frequencies rescaled as published with Llama 3.1 (`rope_type: llama3`)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int

    def __post_init__(self) -> None:
        _require_positive(
            factor=self.factor,
            low_freq_factor=self.low_freq_factor,
            high_freq_factor=self.high_freq_factor,
            original_max_positions=self.original_max_positions,
        )
        if not self.low_freq_factor < self.high_freq_factor:
            raise ConfigError(
                "the two frequency bounds are the wrong way round",
                field="high_freq_factor",
                value=self.high_freq_factor,
                allowed=f"> low_freq_factor = {self.low_freq_factor}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling:
    """RoPE frequencies divided by a factor (`rope_type: linear`)."""

    factor: float

    def __post_init__(self) -> None:
        _require_positive(factor=self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """Sparse mixture in place of an MLP: a router, and experts of which each token takes a few.

    Raises:
        ConfigError: for invalid numbers.
    """

    num_experts: int
    num_active: int
    """Experts per token: those with the largest router probabilities, ties to the lower expert."""
    expert_size: int
    """Inner width of an expert."""
    normalised: bool
    """True if a token's weights are divided by their sum; otherwise they are the probabilities over all experts."""
    dense_layers: tuple[int, ...] = ()
    """Layers with a dense MLP of `intermediate_size` instead, ascending."""

    def __post_init__(self) -> None:
        _require_positive(num_experts=self.num_experts, num_active=self.num_active, expert_size=self.expert_size)
        _require_counts(num_experts=self.num_experts, expert_size=self.expert_size)
        if self.num_active > self.num_experts:
            raise ConfigError(
                "a token cannot take more experts than there are",
                field="num_active",
                value=self.num_active,
                allowed=f"1 to num_experts = {self.num_experts}",
            )
        if self.dense_layers != tuple(sorted({n for n in self.dense_layers if n >= 0})):
            raise ConfigError(
                "dense layers are numbers of layers, ascending, each once",
                field="dense_layers",
                value=self.dense_layers,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Pre-norm decoder: RMSNorm, RoPE, grouped-query attention, SwiGLU, tied or free head.

    Raises:
        ConfigError: for invalid numbers.
    """

    family: Family
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_positions: int
    """Longest context, prompt and completion together; capped at a model's sliding window."""
    norm_eps: float
    rope_theta: float
    rope_scaling: Llama3Scaling | LinearScaling | None = None
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    tied: bool = False
    """True if the head is the embedding matrix."""
    end_tokens: tuple[int, ...] = ()
    """Token ids that end a completion, from the model's config."""
    mixture: Mixture | None = field(default=None, metadata=LATER)
    """Experts in place of the MLP; None if every layer is dense."""
    qk_norm_whole: bool = field(default=False, metadata=LATER)
    """True if the norms of q and k span all heads together (OLMoE), before rotation; `qk_norm` is then false."""

    def __post_init__(self) -> None:
        _require_positive(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            num_kv_heads=self.num_kv_heads,
            head_dim=self.head_dim,
            max_positions=self.max_positions,
            norm_eps=self.norm_eps,
            rope_theta=self.rope_theta,
        )
        _require_counts(
            vocab_size=self.vocab_size,
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            head_dim=self.head_dim,
            max_positions=self.max_positions,
        )
        if self.max_positions * self.head_dim > MOST_ANGLES:
            raise ConfigError(
                "this is out of proportion: the table of rotations would not fit memory",
                field="max_positions",
                value=self.max_positions,
                allowed=f"at most {MOST_ANGLES // self.head_dim} with head_dim = {self.head_dim}",
            )
        if self.mixture is not None and self.num_layers * self.mixture.num_experts > _MOST_PARTS:
            raise ConfigError(
                "this is out of proportion: so many experts in so many layers",
                field="num_layers",
                value=self.num_layers,
                allowed=f"at most {_MOST_PARTS // self.mixture.num_experts} with these experts",
            )
        if self.num_heads % self.num_kv_heads:
            raise ConfigError(
                "query heads share key heads in groups of one size",
                field="num_kv_heads",
                value=self.num_kv_heads,
                allowed=f"a divisor of num_heads = {self.num_heads}",
            )
        if self.head_dim % 2:
            raise ConfigError(
                "RoPE rotates pairs, so the head dimension must be even",
                field="head_dim",
                value=self.head_dim,
                allowed="an even number",
            )
        if self.qk_norm and self.qk_norm_whole:
            raise ConfigError(
                "q and k are normed per head or over all heads, not both",
                field="qk_norm_whole",
                value=True,
                allowed="false with qk_norm",
            )
        if self.mixture is not None and self.mlp_bias:
            raise ConfigError("experts have no bias", field="mlp_bias", value=True, allowed="false")
        if any(token < 0 for token in self.end_tokens):
            raise ConfigError("a token id is not negative", field="end_tokens", value=self.end_tokens, allowed=">= 0")

    @property
    def q_size(self) -> int:
        """Width of all query heads together."""
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all key (or value) heads together."""
        return self.num_kv_heads * self.head_dim

    def sparse(self, layer: int) -> bool:
        """True if a layer, by its number in the model, is a mixture of experts."""
        return self.mixture is not None and layer not in self.mixture.dense_layers


LARGEST: Mapping[str, int] = MappingProxyType(
    {
        "vocab_size": 1 << 24,
        "hidden_size": 1 << 20,
        "intermediate_size": 1 << 22,
        "expert_size": 1 << 22,
        "num_layers": 1 << 12,
        "num_heads": 1 << 10,
        "head_dim": 1 << 10,
        "num_experts": 1 << 10,
        "max_positions": 1 << 23,
    }
)
"""Sanity limits, far above any existing model, checked before memory is allocated; the kernels take no more heads,
head sizes and experts."""


MOST_ANGLES: Final = 1 << 30
"""Most positions times head size: the table of rotations holds 4 bytes for each."""


def _require_counts(**values: int) -> None:
    for name, value in values.items():
        if value > LARGEST[name]:
            raise ConfigError("this is out of proportion", field=name, value=value, allowed=f"1 to {LARGEST[name]}")


def end_tokens_among(tokens: Iterable[int], num_rows: int) -> tuple[int, ...]:
    """Return the end tokens below this number of rows, each once."""
    return tuple(dict.fromkeys(token for token in tokens if token < num_rows))


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ConfigError("a decoder cannot have this value", field=name, value=value, allowed="finite and > 0")
