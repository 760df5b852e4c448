"""Tokenizers of the kinds that other people's models have, made on the spot, and models that go with them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from oracles import LLAMA, random_weights
from tinsmith.models.folders.folder import write_folder

MARKS = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
TEMPLATE = (
    "{%- for m in messages -%}{{- '<|' + m['role'] + '|>' + m['content'] + '<|end|>' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)


def byte_level(
    *,
    special: Sequence[str] = MARKS,
    added: Sequence[str] = (),
    template: str | dict[str, str] = TEMPLATE,
    lower: bool = False,
    **of_marks: bool,
) -> PreTrainedTokenizerFast:
    """Byte-level: special tokens, the 256 bytes, then added tokens that are not special.

    `of_marks` are settings of the special tokens (`rstrip`, `single_word`); with `lower` capitals are lower-cased.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: token for token, piece in enumerate((*special, *alphabet))}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.normalizer = normalizers.Lowercase() if lower else None
    flags = {"normalized": False, **of_marks}
    backend.add_special_tokens([AddedToken(mark, special=True, **flags) for mark in special])
    backend.add_tokens([AddedToken(text, special=False, normalized=False) for text in added])
    return _wrapped(backend, eos_token=special[0], chat_template=template)


def sentence_piece(words: Sequence[str], *, named: bool = True, metaspace: bool = False) -> PreTrainedTokenizerFast:
    """With bytes to fall back to, a space before the first word and a begin token, which may have no name."""
    special = ("</s>", "<s>", "<unk>")
    pieces = dict.fromkeys([*special, *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581"])
    merges: list[tuple[str, str]] = []
    pieces |= dict.fromkeys(sorted({letter for word in words for letter in word}))
    for word in words:
        for end in range(1, len(word)):
            if word[: end + 1] not in pieces:
                pieces[word[: end + 1]] = None
                merges.append((word[:end], word[end]))
    vocab = {piece: token for token, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    unspaced: list[Any] = [decoders.ByteFallback(), decoders.Fuse()]
    if metaspace:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    else:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        spaced = [decoders.Replace("\u2581", " "), *unspaced, decoders.Strip(" ", 1, 0)]
        backend.decoder = decoders.Sequence(spaced)
    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in special])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", vocab["<s>"])])
    names = {"bos_token": "<s>"} if named else {}
    return _wrapped(backend, eos_token="</s>", unk_token="<unk>", **names)


def word_piece(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Lower-cased words and their endings, so that a text does not come back as it was written."""
    vocab = {piece: token for token, piece in enumerate(("[UNK]", "[SEP]", *words))}
    backend = Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.add_special_tokens([AddedToken("[SEP]", special=True, normalized=False)])
    return _wrapped(backend, eos_token="[SEP]", unk_token="[UNK]")


def model_folder(
    path: Path, tokenizer: PreTrainedTokenizerFast, *, num_rows: int | None = None, end_tokens: tuple[int, ...] = (0,)
) -> Path:
    """Write a small random model, with as many rows as there are tokens unless another number is given."""
    rows = len(tokenizer) if num_rows is None else num_rows
    config = replace(LLAMA, vocab_size=rows, max_positions=512)
    write_folder(path, config, random_weights(config, 1))
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**values, "eos_token_id": list(end_tokens)}))
    tokenizer.save_pretrained(str(path))
    return path


def _wrapped(backend: Tokenizer, **names: Any) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **names)
