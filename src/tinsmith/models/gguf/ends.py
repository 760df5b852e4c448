"""Tokens that end a reply, and kinds of tokens that llama.cpp derives from a token's text, whatever the file specifies.

Source: `llama_vocab::impl::load` in llama.cpp's llama-vocab.cpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Final

from gguf import TokenType

from tinsmith.models.gguf.file import Value
from tinsmith.types.errors import ConfigError

TOKENS: Final = "tokenizer.ggml.tokens"

END_KEYS: Final = tuple(
    f"tokenizer.ggml.{name}_token_id" for name in ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
)
"""Keys of single tokens that end a reply, in order of precedence."""

_ENDS: Final = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>"),
    *("<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>"),
    *("<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~["),
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
_FILL_ENDS: Final = {
    END_KEYS[3]: ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    END_KEYS[4]: ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    END_KEYS[5]: ("<|file_sep|>",),
}
"""End tokens of code infilling, identified by text if the file names none."""
_SHOWN: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
"""Marks inside a reply that are always part of its text."""


def end_tokens(metadata: Mapping[str, Value], num_rows: int) -> tuple[int, ...]:
    """Return the tokens that end a reply: those that the file names, then those known by their text, by id."""
    tokens = metadata.get(TOKENS)
    ids = {str(token): index for index, token in enumerate(tokens)} if isinstance(tokens, list) else {}
    default = {END_KEYS[0]: 2} if metadata.get("tokenizer.ggml.model") == "llama" else {}
    keys = {**default, **metadata}
    named = [index for key in END_KEYS if (index := token_id(keys, key)) is not None]
    by_text = sorted(ids[text] for text in (*_ENDS, *_fills(metadata, ids)) if text in ids)
    inner = _inner(ids)
    return tuple(each for each in dict.fromkeys([*named, *by_text]) if 0 <= each < num_rows and each not in inner)


def token_id(metadata: Mapping[str, Value], key: str) -> int | None:
    """Return the id under a key; None if the key is absent.

    Raises:
        ConfigError: it is of another type.
    """
    value = metadata.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, NoneType)):
        raise ConfigError("a token's id is a whole number", field=key, value=value, fix="convert the model again")
    return value


def kinds_by_text(metadata: Mapping[str, Value], ids: Mapping[str, int]) -> dict[int, TokenType]:
    """Return the kinds of the tokens that are determined by their text."""
    inner = _inner(ids)
    kinds = {ids[text]: TokenType.CONTROL for text in (*_ENDS, *_fills(metadata, ids)) if text in ids}
    kinds |= {index: TokenType.NORMAL if index == ids.get("</s>") else TokenType.USER_DEFINED for index in inner}
    return kinds | {ids[text]: TokenType.USER_DEFINED for text in _SHOWN if text in ids}


def spread(ends: Sequence[int]) -> dict[str, int]:
    """Return up to six end tokens by key; the tokenizer's own comes first."""
    return dict(zip(END_KEYS, ends, strict=False))


def _fills(metadata: Mapping[str, Value], ids: Mapping[str, int]) -> list[str]:
    """Return the texts of infilling end tokens that no key names; the lowest token of several."""
    candidates = [[t for t in texts if t in ids] for key, texts in _FILL_ENDS.items() if key not in metadata]
    return [min(each, key=lambda text: ids[text]) for each in candidates if each]


def _inner(ids: Mapping[str, int]) -> set[int]:
    """Return tokens that look like end tokens, but are not in the vocabularies of gpt-oss, Solar and Gemma 4."""
    calls, closes = ({"<|call|>", "<|calls|>"}, {"<|return|>", "<|flush|>"})
    inner = ["<|end|>"] if calls & ids.keys() and closes & ids.keys() else []
    inner += ["</s>"] if "<|tool_response>" in ids else []
    return {ids[text] for text in inner if text in ids}
