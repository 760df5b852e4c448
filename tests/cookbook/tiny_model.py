"""The model under the cookbook: random weights with one habit, and a tokenizer of bytes.

A random model earns no reward, so no recipe would train. This one has its last layer bent so that, after the colon that
ends `Assistant:`, it writes `\\boxed{2}` (two times of three) or `\\boxed{1}` (one of five), and stops. Tasks that have
one of the two as their answer are then solved sometimes, and groups have something to learn from.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

NAME = "Qwen/Qwen3-8B-Base"
"""The recipes look a model's renderer up by its name, so the tiny one goes by the name of a large one."""

CONTEXT = 16_384
"""Bytes are many: twenty questions and their answers take several thousand."""

WIDTH, VOCAB, END = 64, 320, 256
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

HABIT = (":", "\\", "b", "o", "x", "e", "d", "{", "12", "}")
"""Each is followed by the next, and the last by the end of the text."""

STRENGTH = 1.4
"""How far the last layer is bent: about ten nats for every step of the habit."""


def write_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Save a tokenizer of single bytes, with the special tokens of Qwen's chats."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    unused = (f"<|{i}|>" for i in range(END + len(SPECIAL), VOCAB))
    backend.add_special_tokens([*SPECIAL, *unused])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=SPECIAL[0])
    tokenizer.save_pretrained(folder)
    return tokenizer


def write_model(folder: Path) -> None:
    """Save the model and its tokenizer; the same files every time."""
    logging.disable_progress_bar()
    tokenizer = write_tokenizer(folder)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCAB,
            hidden_size=WIDTH,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=16,
            max_position_embeddings=CONTEXT,
            bos_token_id=None,
            eos_token_id=END,
            tie_word_embeddings=False,
        )
    )
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            centre = 1.0 if name.endswith("norm.weight") else 0.0
            parameter.copy_(centre + 0.1 * torch.randn(parameter.shape, generator=generator))
        embeddings, head = model.model.embed_tokens.weight, model.lm_head.weight
        # Large embeddings say clearly what the last token was, whatever the layers add to them.
        embeddings.mul_(20.0)
        steps = [[tokenizer.encode(c)[0] for c in text] for text in HABIT]
        for before, after in zip(steps, [*steps[1:], [END]], strict=True):
            for token in before:
                direction = embeddings[token] / embeddings[token].norm()
                head[after] += STRENGTH * direction
    model.save_pretrained(folder)
