"""Names and shapes of a decoder's tensors, as in Hugging Face, and the linear layers that adapt.

The decoder defines the use of the tensors; this module only has names and shapes.
"""

from __future__ import annotations

from tinsmith.models.config import DecoderConfig

EMBEDDING = "model.embed_tokens.weight"
FINAL_NORM = "model.norm.weight"
HEAD = "lm_head.weight"

ATTENTION_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
MLP_TARGETS = ("gate_proj", "up_proj", "down_proj")
ROUTER = "mlp.gate"
"""Router of a mixture, within its layer."""
ROUTER_TARGET = "gate"
LINEAR_TARGETS = (*ATTENTION_TARGETS, *MLP_TARGETS, ROUTER_TARGET, "lm_head")
"""Linear layers that an adapter can train; all but the last occur in every layer that has such a part."""


def expected_tensors(config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Return every tensor's shape by name, in reading order; a linear weight is (out, in).

    A tied head is the embedding and has no entry of its own.
    """
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (config.vocab_size, config.hidden_size)}
    for layer_idx in range(config.num_layers):
        for name, shape in _layer_tensors(config, layer_idx).items():
            shapes[f"model.layers.{layer_idx}.{name}"] = shape
    shapes[FINAL_NORM] = (config.hidden_size,)
    if not config.tied:
        shapes[HEAD] = (config.vocab_size, config.hidden_size)
    return shapes


def mlp_names(config: DecoderConfig, layer: int) -> tuple[str, ...]:
    """Return the names of a layer's gated MLPs within it: the dense one, or every expert in order."""
    if config.mixture is None or not config.sparse(layer):
        return ("mlp",)
    return tuple(f"mlp.experts.{e}" for e in range(config.mixture.num_experts))


def _layer_tensors(config: DecoderConfig, layer: int) -> dict[str, tuple[int, ...]]:
    hidden = config.hidden_size
    linears = [
        ("self_attn.q_proj", config.q_size, hidden, config.qkv_bias),
        ("self_attn.k_proj", config.kv_size, hidden, config.qkv_bias),
        ("self_attn.v_proj", config.kv_size, hidden, config.qkv_bias),
        ("self_attn.o_proj", hidden, config.q_size, config.o_bias),
    ]
    inner = config.intermediate_size
    if config.mixture is not None and config.sparse(layer):
        inner = config.mixture.expert_size
        linears.append((ROUTER, config.mixture.num_experts, hidden, False))
    for mlp in mlp_names(config, layer):
        linears += [
            (f"{mlp}.gate_proj", inner, hidden, config.mlp_bias),
            (f"{mlp}.up_proj", inner, hidden, config.mlp_bias),
            (f"{mlp}.down_proj", hidden, inner, config.mlp_bias),
        ]
    shapes: dict[str, tuple[int, ...]] = {"input_layernorm.weight": (hidden,)}
    for name, num_out, num_in, has_bias in linears:
        shapes[f"{name}.weight"] = (num_out, num_in)
        if has_bias:
            shapes[f"{name}.bias"] = (num_out,)
    if config.qk_norm or config.qk_norm_whole:
        whole = config.qk_norm_whole
        shapes["self_attn.q_norm.weight"] = (config.q_size if whole else config.head_dim,)
        shapes["self_attn.k_norm.weight"] = (config.kv_size if whole else config.head_dim,)
    shapes["post_attention_layernorm.weight"] = (hidden,)
    return shapes
