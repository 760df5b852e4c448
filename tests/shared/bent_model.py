"""A model of random weights with habits: its last layer is bent so that some tokens are followed by others."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

CONTEXT = 16_384
"""Bytes are many: a conversation of twenty turns takes several thousand."""

WIDTH, VOCAB, END = 64, 320, 256

STRENGTH = 1.4
"""About ten nats for every step of a habit."""


def byte_tokenizer(
    special: Sequence[str], pieces: Sequence[str] = (), template: str | None = None
) -> PreTrainedTokenizerFast:
    """Make a tokenizer of single bytes; END is the first special token.

    Args:
        special: control tokens, from END on.
        pieces: texts that are one token each, after those.
        template: its chat template.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(list(special))
    backend.add_tokens([AddedToken(piece, normalized=False) for piece in pieces])
    unused = (f"<|{i}|>" for i in range(END + len(special) + len(pieces), VOCAB))
    backend.add_special_tokens(list(unused))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=special[0])
    if template is not None:
        tokenizer.chat_template = template
    return tokenizer


def fill(model: torch.nn.Module) -> None:
    """Give a model random weights; the same every time."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            centre = 1.0 if name.endswith("norm.weight") else 0.0
            parameter.copy_(centre + 0.1 * torch.randn(parameter.shape, generator=generator))


def write_bent_model(
    folder: Path,
    tokenizer: PreTrainedTokenizerFast,
    habits: Sequence[Sequence[Sequence[int]]],
    ends: Sequence[int] = (),
    strength: float = STRENGTH,
) -> None:
    """Save the model and its tokenizer; the same files every time.

    Args:
        folder: where; it is made.
        tokenizer: of VOCAB tokens.
        habits: chains of steps; each token of a step is followed by one of the next step's, equally likely.
        ends: tokens that end a text, beside END.
        strength: how far the last layer is bent.
    """
    logging.disable_progress_bar()
    tokenizer.save_pretrained(folder)
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
            eos_token_id=[END, *ends] if ends else END,
            tie_word_embeddings=False,
        )
    )
    fill(model)
    with torch.no_grad():
        embeddings, head = model.model.embed_tokens.weight, model.lm_head.weight
        # Large embeddings say clearly what the last token was, whatever the layers add to them.
        embeddings.mul_(20.0)
        for habit in habits:
            for before, after in pairwise(habit):
                for token in before:
                    direction = embeddings[token] / embeddings[token].norm()
                    head[list(after)] += strength * direction
    model.save_pretrained(folder)
