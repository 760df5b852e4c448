"""Tiny random models of every supported family, made and saved by transformers."""

from pathlib import Path

import torch

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "llama3_rope", "llama_bias")
"""The four families, Llama 3.1's RoPE scaling, and Llama with every bias."""

MIXTURES = ("qwen3_moe", "qwen3_moe_64", "olmoe", "olmoe_64")
"""Mixtures of 8 experts, two a token, and of 64, eight a token; Qwen3's first layer of three is dense, and its weights
are normalised; OLMoE's are not."""

VOCAB_SIZE = 320
MAX_POSITIONS = 512

_SHAPE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_POSITIONS,
}
_OWN = {
    "llama": {"rms_norm_eps": 1e-5},
    "mistral": {"num_hidden_layers": 3, "intermediate_size": 112, "sliding_window": None},
    "qwen2": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "qwen3": {"head_dim": 32, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "llama3_rope": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 5e5,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 128,
        }
    },
    "llama_bias": {"attention_bias": True, "mlp_bias": True},
    "qwen3_moe": {
        "num_hidden_layers": 3,
        "head_dim": 32,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        "moe_intermediate_size": 40,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "mlp_only_layers": [0],
    },
    "qwen3_moe_64": {
        "num_hidden_layers": 1,
        "head_dim": 16,
        "moe_intermediate_size": 24,
        "num_experts": 64,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
    },
    "olmoe": {"intermediate_size": 40, "num_experts": 8, "num_experts_per_tok": 2, "eos_token_id": 0},
    "olmoe_64": {
        "num_hidden_layers": 1,
        "intermediate_size": 24,
        "num_experts": 64,
        "num_experts_per_tok": 8,
        "eos_token_id": 0,
    },
}


def make_hf_model(
    family: str,
    folder: Path,
    seed: int,
    *,
    dtype: str = "float32",
    tied: bool | None = None,
    max_shard_size: str = "1GB",
) -> None:
    """Save a model of one of `FAMILIES` or `MIXTURES` with random weights, norms and biases.

    Weights are large enough for logits that are not flat. `tied` defaults to the family's own.
    """
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    settings = {**_SHAPE, **_OWN[family]}
    if tied is not None:
        settings["tie_word_embeddings"] = tied
    kind = "llama" if family.startswith("llama") else family.removesuffix("_64")
    config = AutoConfig.for_model(kind, **settings)
    model = AutoModelForCausalLM.from_config(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            centre = 1.0 if name.endswith("norm.weight") else 0.0
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(centre + (0.2 if parameter.ndim == 1 else 0.1) * noise)
    model.to(getattr(torch, dtype)).save_pretrained(folder, max_shard_size=max_shard_size)
