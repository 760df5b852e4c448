"""A tokenizer as a GGUF file's metadata: tokens, merges, kinds, and the name of the rule that splits text.

Byte-level BPE only, with a rule that llama.cpp has a name for: any other would be read as another tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gguf import TokenType

from tinsmith.models.gguf.file import Value, read_gguf
from tinsmith.models.published.packaged import PREFIX
from tinsmith.models.published.sources import Kind, Source
from tinsmith.renderers.tokenizer import load_tokenizer, preset_tokenizer
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_KEYS: Final = "tokenizer."
_DIGITS: Final = "smollm"
_PLAIN: Final = "gpt-2"
_SPLITS: Final[Mapping[str, str]] = {
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+": "llama-bpe",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+": "qwen2",
}
"""Regular expressions of tokenizer.json by the name that llama.cpp gives them."""


def vocabulary(source: Source, vocab_size: int, end_tokens: Sequence[int]) -> dict[str, Value]:
    """Return the metadata keys of a model's tokenizer; those of a GGUF file are taken over as they are.

    `vocab_size` is the embedding's: tokens that the tokenizer has not are named as unused.

    Raises:
        ConfigError: the model has no tokenizer, or llama.cpp knows none that does the same.
    """
    if source.kind is Kind.GGUF:
        assert source.path is not None, "a file has a path"
        metadata = read_gguf(source.path).metadata
        return {key: value for key, value in metadata.items() if key.startswith(_KEYS)}
    from transformers import PreTrainedTokenizerFast

    if source.path is None:
        tokenizer = preset_tokenizer(str(source.served_name).removeprefix(PREFIX))
    else:
        tokenizer = load_tokenizer(source.path)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise _unknown(source.path, "tokenizer", type(tokenizer).__name__)
    whole: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    model, where = whole["model"], source.path
    if model["type"] != "BPE" or model.get("byte_fallback"):
        raise _unknown(where, "model", model["type"])
    added = {each["id"]: each for each in whole["added_tokens"]}
    ids = {index: token for token, index in tokenizer.get_vocab().items()}
    tokens = [ids.get(i, f"[PAD{i}]") for i in range(vocab_size)]
    kinds = [_kind(added.get(i), i in ids) for i in range(vocab_size)]
    merges = [each if isinstance(each, str) else " ".join(each) for each in model["merges"]]
    keys: dict[str, Value] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": _split(whole["pre_tokenizer"], where),
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [int(kind) for kind in kinds],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.add_bos_token": _opens_with_bos(tokenizer),
        **_special(tokenizer, end_tokens),
    }
    if isinstance(tokenizer.chat_template, str):
        keys["tokenizer.chat_template"] = tokenizer.chat_template
    return keys


def _kind(added: Mapping[str, object] | None, known: bool) -> TokenType:
    if added is not None:
        return TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
    return TokenType.NORMAL if known else TokenType.UNUSED


def _special(tokenizer: PreTrainedTokenizerFast, end_tokens: Sequence[int]) -> dict[str, Value]:
    """The ids of special tokens; of several that end a reply, the tokenizer's own is first."""
    ends = list(dict.fromkeys([*_ids(tokenizer.eos_token_id), *end_tokens]))
    found: dict[str, Value] = {}
    for key, index in zip(("eos", "eot", "eom"), ends, strict=False):
        found[f"tokenizer.ggml.{key}_token_id"] = index
    for key, index in (("bos", tokenizer.bos_token_id), ("padding", tokenizer.pad_token_id)):
        if isinstance(index, int):
            found[f"tokenizer.ggml.{key}_token_id"] = index
    return found


def _ids(index: object) -> list[int]:
    return [index] if isinstance(index, int) else []


def _opens_with_bos(tokenizer: PreTrainedTokenizerFast) -> bool:
    opening = tokenizer.encode("", add_special_tokens=True)
    return bool(opening) and opening[0] == tokenizer.bos_token_id


def _split(pre: Mapping[str, Any] | None, where: Path | None) -> str:
    """The name of a pre-tokenizer's rule."""
    steps = [] if pre is None else pre["pretokenizers"] if pre["type"] == "Sequence" else [pre]
    found = [step["type"] for step in steps]
    if found == ["Digits", "ByteLevel"] and steps[0]["individual_digits"]:
        return _DIGITS
    if found == ["ByteLevel"] and steps[0]["use_regex"] and not steps[0]["add_prefix_space"]:
        return _PLAIN
    if found == ["Split", "ByteLevel"]:
        pattern = str(steps[0]["pattern"].get("Regex", ""))
        for known, name in _SPLITS.items():
            if known == pattern:
                return name
    raise _unknown(where, "pre_tokenizer", " ".join(found))


def _unknown(where: Path | None, field: str, value: object) -> ConfigError:
    return ConfigError(
        f"{where}: llama.cpp has no name for how this tokenizer works",
        field=field,
        value=value,
        allowed="byte-level BPE as GPT-2, SmolLM2, Llama 3 or Qwen2 split text",
        fix="export --to merged, and convert that folder with llama.cpp's convert_hf_to_gguf.py",
    )
