"""Shapes of decoders that are built from scratch, by name; `initial_weights.py` draws their first weights."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tinsmith.models.config import DecoderConfig, Family, Mixture

PRESETS: Mapping[str, DecoderConfig] = MappingProxyType(
    {
        "nano": DecoderConfig(
            family=Family.LLAMA,
            vocab_size=512,
            hidden_size=128,
            intermediate_size=480,
            num_layers=4,
            num_heads=4,
            num_kv_heads=2,
            head_dim=32,
            max_positions=1024,
            norm_eps=1e-5,
            rope_theta=10_000.0,
            tied=True,
            end_tokens=(0,),
        ),
        "tiny": DecoderConfig(
            family=Family.LLAMA,
            vocab_size=4096,
            hidden_size=256,
            intermediate_size=688,
            num_layers=6,
            num_heads=8,
            num_kv_heads=4,
            head_dim=32,
            max_positions=2048,
            norm_eps=1e-5,
            rope_theta=10_000.0,
            tied=True,
            end_tokens=(0,),
        ),
        "moe-nano": DecoderConfig(
            family=Family.QWEN3_MOE,
            vocab_size=512,
            hidden_size=128,
            intermediate_size=480,
            num_layers=4,
            num_heads=4,
            num_kv_heads=2,
            head_dim=32,
            max_positions=1024,
            norm_eps=1e-5,
            rope_theta=10_000.0,
            qk_norm=True,
            tied=True,
            end_tokens=(0,),
            mixture=Mixture(num_experts=8, num_active=2, expert_size=64, normalised=True),
        ),
    }
)
"""Shapes by name: `nano` has 1,000,576 parameters, `tiny` 5,401,856, `moe-nano` 1,054,080: `nano` with eight experts,
two per token, in place of its MLP."""
