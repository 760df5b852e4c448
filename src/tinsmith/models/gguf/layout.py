"""Names and layout of a decoder in a GGUF file: keys, tensors, and the order of q and k rows.

A mixture's experts are in one tensor per matrix, (experts, out, in).

Files of the llama architecture hold the rows of q and k for a rotation of neighbouring channels, all others, and every
Hugging Face folder, for one of the two halves of a head; `interleaved` and `halved` convert between them.

Source: ggml's docs/gguf.md; `LlamaModel.permute` of llama.cpp's conversion script.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tinsmith.models.config import DecoderConfig, Family
from tinsmith.models.names import EMBEDDING, FINAL_NORM, HEAD, expected_tensors

_T = TypeVar("_T", bound=np.generic)

ARCHITECTURES: Final = {
    "llama": Family.LLAMA,
    "qwen2": Family.QWEN2,
    "qwen3": Family.QWEN3,
    "qwen3moe": Family.QWEN3_MOE,
    "olmoe": Family.OLMOE,
}
"""Families by a file's architecture; Mistral's files name llama, and compute the same."""

ROPE_FACTORS: Final = "rope_freqs.weight"
"""Tensor of the divisors of a llama3 rotation's frequencies, (head_dim / 2,)."""

_OUTER: Final = {EMBEDDING: "token_embd.weight", FINAL_NORM: "output_norm.weight", HEAD: "output.weight"}
_INNER: Final = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate": "ffn_gate_inp",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@dataclass(frozen=True, slots=True)
class FilePlace:
    """Location of a published tensor in a file."""

    name: str
    expert: int | None = None
    """Index in a tensor of all experts; None for a tensor of its own."""


def file_places(config: DecoderConfig) -> dict[str, FilePlace]:
    """Return the location of every tensor of the decoder, by its published name."""
    return {name: _file_place(name) for name in expected_tensors(config)}


def rotated_heads(name: str, config: DecoderConfig) -> int:
    """Return the number of heads whose rows a llama file reorders in a published tensor; 0 for most."""
    if config.family not in (Family.LLAMA, Family.MISTRAL):
        return 0
    if ".q_proj." in name:
        return config.num_heads
    return config.num_kv_heads if ".k_proj." in name else 0


def halved(rows: NDArray[_T], num_heads: int) -> NDArray[_T]:
    """Return a llama file's q or k rows, values or bytes, in the published order."""
    pairs = rows.reshape(num_heads, rows.shape[0] // num_heads // 2, 2, -1)
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def interleaved(rows: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """Return published q or k rows in a llama file's order."""
    halves = rows.reshape(num_heads, 2, rows.shape[0] // num_heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def _file_place(name: str) -> FilePlace:
    if name in _OUTER:
        return FilePlace(_OUTER[name])
    _, _, layer, inner = name.split(".", 3)
    module, _, kind = inner.rpartition(".")
    if module.startswith("mlp.experts."):
        *_, expert, matrix = module.split(".")
        return FilePlace(f"blk.{layer}.{_INNER[f'mlp.{matrix}']}_exps.{kind}", int(expert))
    return FilePlace(f"blk.{layer}.{_INNER[module]}.{kind}")
