"""Small random GGUF files, written by the `gguf` library as llama.cpp's conversion script lays them out.

Shares nothing with what is tested: names, the order of q and k rows and llama3's factors are spelled again here.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from transformers import PreTrainedTokenizerFast

from tinsmith.models.config import DecoderConfig, Family, Llama3Scaling
from tinsmith.renderers.corpus import builtin_corpus
from tinsmith.renderers.tokenizer import train_tokenizer

VOCAB = 320

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate": "ffn_gate_inp",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@cache
def small_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE that makes every digit a token: what GGUF files call `smollm`."""
    return train_tokenizer(builtin_corpus(num_sentences=1000), VOCAB)


def write_gguf(
    path: Path,
    config: DecoderConfig,
    weights: Mapping[str, torch.Tensor],
    *,
    type: Type = Type.F32,
    architecture: str | None = None,
    tokenizer: bool = True,
    more: Mapping[str, int | str | float] | None = None,
    rope_factors: Sequence[float] = (),
    encode: Callable[[np.ndarray, Type], np.ndarray] = gguf.quantize,
) -> None:
    """Write a model; its matrices as `type`, by `encode`, everything else as F32."""
    known = {Family.MISTRAL: "llama", Family.QWEN3_MOE: "qwen3moe"}
    arch = architecture or known.get(config.family, config.family.value)
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name("made up")
    writer.add_context_length(config.max_positions)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_heads)
    writer.add_head_count_kv(config.num_kv_heads)
    writer.add_layer_norm_rms_eps(config.norm_eps)
    writer.add_rope_freq_base(config.rope_theta)
    if config.mixture is not None:
        writer.add_expert_count(config.mixture.num_experts)
        writer.add_expert_used_count(config.mixture.num_active)
        if arch == "qwen3moe":
            writer.add_expert_feed_forward_length(config.mixture.expert_size)
    if arch == "llama":
        writer.add_rope_dimension_count(config.head_dim)
        writer.add_vocab_size(config.vocab_size)
    if config.head_dim * config.num_heads != config.hidden_size:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if tokenizer:
        _add_tokenizer(writer)
    for key, value in (more or {}).items():
        kinds = {int: writer.add_uint32, str: writer.add_string, float: writer.add_float32}
        kinds[value.__class__](key, value)
    if isinstance(config.rope_scaling, Llama3Scaling):
        rope_factors = _llama3_factors(config, config.rope_scaling)
    if rope_factors:
        writer.add_tensor("rope_freqs.weight", np.array(rope_factors, dtype=np.float32))
    for name, tensor in _experts_together(weights).items():
        values = tensor.numpy()
        heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}
        which = name.split(".")[-2]
        if arch == "llama" and which in heads:
            values = _permuted(values, heads[which])
        router = name.endswith("mlp.gate.weight")
        kind = type if values.ndim >= 2 and not router else Type.F32
        quantised = (gguf.quantize if kind is Type.F32 else encode)(np.ascontiguousarray(values), kind)
        writer.add_tensor(_file_name(name), quantised, raw_dtype=kind)
    finish(writer)


def finish(writer: gguf.GGUFWriter) -> None:
    """Write all that was added, and close the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_one(path: Path, stored: np.ndarray, type: Type) -> None:
    """Write a file of one tensor, `one`."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("one", stored, raw_dtype=type)
    finish(writer)


def _experts_together(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Matrices of all experts of a layer as one tensor: `modify_tensors` of convert_hf_to_gguf.py."""
    together: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        before, experts, rest = name.partition("mlp.experts.")
        if not experts:
            together[name] = tensor
        elif rest.startswith("0."):
            matrix = rest.removeprefix("0.")
            count = sum(other.startswith(before) and other.endswith(matrix) for other in weights)
            together[f"{before}experts.{matrix}"] = torch.stack(
                [weights[f"{before}mlp.experts.{e}.{matrix}"] for e in range(count)]
            )
    return together


def _file_name(name: str) -> str:
    module, _, kind = name.rpartition(".")
    if module in _NAMES:
        return f"{_NAMES[module]}.{kind}"
    _, _, layer, inner = module.split(".", 3)
    if inner.startswith("experts."):
        return f"blk.{layer}.{_NAMES['mlp.' + inner.removeprefix('experts.')]}_exps.{kind}"
    return f"blk.{layer}.{_NAMES[inner]}.{kind}"


def _permuted(weights: np.ndarray, n_head: int) -> np.ndarray:
    """`LlamaModel.permute` of llama.cpp's convert_hf_to_gguf.py."""
    return (
        weights.reshape(n_head, 2, weights.shape[0] // n_head // 2, *weights.shape[1:])
        .swapaxes(1, 2)
        .reshape(weights.shape)
    )


def _llama3_factors(config: DecoderConfig, scaling: Llama3Scaling) -> list[float]:
    """`LlamaModel.generate_extra_tensors` of llama.cpp's convert_hf_to_gguf.py."""
    dim, old = config.head_dim, scaling.original_max_positions
    freqs = 1.0 / (config.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    factors: list[float] = []
    for freq in freqs.tolist():
        wavelen = 2 * math.pi / freq
        if wavelen < old / scaling.high_freq_factor:
            factors.append(1)
        elif wavelen > old / scaling.low_freq_factor:
            factors.append(scaling.factor)
        else:
            smooth = (old / wavelen - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
            factors.append(1 / ((1 - smooth) / scaling.factor + smooth))
    return factors


def _add_tokenizer(writer: gguf.GGUFWriter) -> None:
    tokenizer = small_tokenizer()
    ids = {index: token for token, index in tokenizer.get_vocab().items()}
    tokens = [ids[i] for i in range(len(ids))]
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    special = set(tokenizer.all_special_tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in model["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_add_bos_token(False)
    writer.add_chat_template(tokenizer.chat_template)
