"""Tokenizer as a GGUF file's metadata: tokens, merges, kinds, marks, and the name of the split rule.

A tokenizer is written only if llama.cpp reads it as the same; others are rejected, naming the unsupported part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gguf import TokenType

from tinsmith.models.gguf.ends import END_KEYS, TOKENS, spread
from tinsmith.models.gguf.file import Value, read_gguf
from tinsmith.models.gguf.splits import name_of, patterns_of
from tinsmith.models.gguf.tokenizer import TEMPLATE, TEMPLATES
from tinsmith.models.gguf.tokens import (
    BEGINS,
    BYTES,
    CLOSES,
    COMPOSES,
    KINDS,
    MERGES,
    MODEL,
    PREFIX_SPACE,
    SCORES,
    SPLIT,
    Model,
    merges_by_score,
)
from tinsmith.models.published.packaged import PREFIX
from tinsmith.models.published.sources import Kind, Source
from tinsmith.renderers.tokenizer import load_tokenizer, preset_tokenizer
from tinsmith.types.errors import ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

_KEYS: Final = "tokenizer."
_SPACE: Final = "\u2581"
_PREFIXED: Final[list[dict[str, Any]]] = [
    {"type": "Prepend", "prepend": _SPACE},
    {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
]
_AS_GEMMA: Final[dict[str, Any]] = {
    "type": "Split",
    "pattern": {"String": " "},
    "behavior": "MergedWithPrevious",
    "invert": False,
}
"""Split on spaces after all of them were replaced, which has no effect."""

_UNPREFIXED: Final = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "never", "split": False}


def source_tokenizer(source: Source) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a built-in model or of a folder.

    Raises:
        ConfigError: the folder has none.
    """
    if source.path is None:
        return preset_tokenizer(str(source.served_name).removeprefix(PREFIX))
    return load_tokenizer(source.path)


def vocabulary(source: Source, vocab_size: int, end_tokens: Sequence[int]) -> dict[str, Value]:
    """Return the metadata keys of a model's tokenizer; those of a GGUF file are copied.

    `vocab_size` is the embedding's: rows without a token are named as unused, and tokens without a row are left out.

    Raises:
        ConfigError: the model has no tokenizer, or llama.cpp cannot express it.
    """
    if source.kind is Kind.GGUF:
        assert source.path is not None, "a file has a path"
        return _taken_over(read_gguf(source.path).metadata, vocab_size)
    return vocabulary_of(source_tokenizer(source), vocab_size, end_tokens, where=source.path)


def vocabulary_of(
    tokenizer: PreTrainedTokenizerBase, vocab_size: int, end_tokens: Sequence[int], *, where: Path | None
) -> dict[str, Value]:
    """Return the metadata keys of a tokenizer; errors name its location `where`.

    Raises:
        ConfigError: see `vocabulary`.
    """
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise _unknown(where, "tokenizer", type(tokenizer).__name__, "one with a tokenizer.json")
    return _Writer(tokenizer, json.loads(tokenizer.backend_tokenizer.to_str()), vocab_size, where).keys(end_tokens)


@dataclass(frozen=True, slots=True)
class _Writer:
    tokenizer: PreTrainedTokenizerFast
    whole: Mapping[str, Any]
    """Content of tokenizer.json."""
    rows: int
    where: Path | None

    def keys(self, end_tokens: Sequence[int]) -> dict[str, Value]:
        model = self.whole["model"]
        if model["type"] != "BPE" or any(
            model[key] for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
        ):
            raise self.unknown("model", model["type"], "BPE, without dropout and affixes")
        tokens = self.tokens()
        kinds = self.kinds(tokens)
        merges = [tuple(each if isinstance(each, list) else each.split(" ")) for each in model["merges"]]
        byte_level = not model["byte_fallback"]
        body = self.byte_level(tokens, merges) if byte_level else self.sentencepiece(tokens, kinds, merges)
        return {
            TOKENS: tokens,
            **body,
            KINDS: [int(kind) for kind in kinds],
            **self.marks(end_tokens),
            **_templates(self.tokenizer.chat_template),
        }

    def tokens(self) -> list[str]:
        ids = {index: token for token, index in self.tokenizer.get_vocab().items()}
        added = {each["id"] for each in self.whole["added_tokens"]}
        beyond = sorted(index for index in ids if index >= self.rows and index not in added)
        if beyond:
            raise self.unknown("vocab", ids[beyond[0]], f"ordinary tokens below the embedding's {self.rows} rows")
        taken = set(ids.values())
        tokens = [ids.get(index) or f"[PAD{index}]" for index in range(self.rows)]
        return [f"{token}_" if index not in ids and token in taken else token for index, token in enumerate(tokens)]

    def kinds(self, tokens: Sequence[str]) -> list[TokenType]:
        known = self.tokenizer.get_vocab()
        kinds = [TokenType.NORMAL if token in known else TokenType.UNUSED for token in tokens]
        for added in self.whole["added_tokens"]:
            if added["id"] >= self.rows:
                continue
            strips = [key for key in ("lstrip", "rstrip", "single_word") if added[key]]
            if strips:
                raise self.unknown(
                    f"added_tokens: {strips[0]}", added["content"], "tokens that leave what is beside them"
                )
            kinds[added["id"]] = TokenType.CONTROL if added["special"] else TokenType.USER_DEFINED
        return kinds

    def byte_level(self, tokens: Sequence[str], merges: Sequence[tuple[str, ...]]) -> dict[str, Value]:
        from tokenizers import pre_tokenizers

        model, normalizers = self.whole["model"], self.normalizers()
        name = self.split()
        if normalizers not in ([], [{"type": "NFC"}]):
            raise self.unknown("normalizer", normalizers, "none, or NFC")
        missing = set(pre_tokenizers.ByteLevel.alphabet()) - set(tokens)
        if missing and model["unk_token"] is not None:
            raise self.unknown("vocab", f"without {sorted(missing)[0]!r}", "a token for each of 256 bytes")
        return {
            MODEL: Model.BYTE_LEVEL.value,
            SPLIT: name,
            MERGES: [" ".join(merge) for merge in merges],
            **({COMPOSES: True} if normalizers else {}),
        }

    def split(self) -> str:
        """Return the name of the split rule."""
        patterns, whole_words = patterns_of(self.whole["pre_tokenizer"]), self.whole["model"]["ignore_merges"]
        name = None if patterns is None else name_of(patterns, whole_words=whole_words)
        if name is not None:
            return name
        if patterns is not None and name_of(patterns, whole_words=not whole_words) is not None:
            raise self.unknown("ignore_merges", whole_words, f"{not whole_words} where text is cut so")
        step = json.dumps(self.whole["pre_tokenizer"], ensure_ascii=False)
        raise self.unknown("pre_tokenizer", step, "text cut as GPT-2, SmolLM2, Llama 3, Qwen2, DeepSeek or tekken do")

    def sentencepiece(
        self, tokens: Sequence[str], kinds: list[TokenType], merges: Sequence[tuple[str, ...]]
    ) -> dict[str, Value]:
        if self.whole["model"]["ignore_merges"]:
            raise self.unknown("ignore_merges", True, "false, with byte fallback")
        prefixed = self.prefixed()
        ids = {token: index for index, token in enumerate(tokens)}
        missing = [each for each in BYTES if each not in ids]
        if missing:
            raise self.unknown("vocab", f"without {missing[0]}", "a token for each of 256 bytes")
        for each in BYTES:
            kinds[ids[each]] = TokenType.BYTE
        unknown = self.whole["model"]["unk_token"]
        if unknown in ids:
            kinds[ids[unknown]] = TokenType.UNKNOWN
        ranks = {token: rank for rank, token in enumerate(dict.fromkeys("".join(merge) for merge in merges))}
        scores = [-float(ranks.get(token, len(ranks))) for token in tokens]
        implied = merges_by_score(ids, tuple(kinds), scores)
        if set(implied) != set(merges) or list(map("".join, implied)) != list(map("".join, merges)):
            raise self.unknown("merges", f"{len(merges)} of them", "every pair of tokens that makes a third, once")
        return {MODEL: Model.SENTENCEPIECE.value, SPLIT: "default", SCORES: scores, PREFIX_SPACE: prefixed}

    def prefixed(self) -> bool:
        """True if a space is added before every stretch of text between marks, which llama.cpp does always or never."""
        normalizers, step = self.normalizers(), self.whole["pre_tokenizer"]
        if step not in (None, _AS_GEMMA, _UNPREFIXED):
            allowed = f"Prepend {_SPACE} and Replace of spaces as normalizer, or no space before a text"
            raise self.unknown("pre_tokenizer", step, allowed)
        if normalizers not in (_PREFIXED, _PREFIXED[1:]) and (normalizers, step) != ([], _UNPREFIXED):
            raise self.unknown("normalizer", normalizers, f"Prepend {_SPACE} or nothing, then Replace of spaces")
        return normalizers == _PREFIXED

    def normalizers(self) -> list[Any]:
        step = self.whole["normalizer"]
        return [] if step is None else step["normalizers"] if step["type"] == "Sequence" else [step]

    def marks(self, end_tokens: Sequence[int]) -> dict[str, Value]:
        """Return the ids of marks; of several end tokens, the tokenizer's own comes first."""
        first, last = self.around()
        own = self.tokenizer.eos_token_id
        if last is not None and last != own:
            raise self.unknown("post_processor", last, f"texts closed by the end token, {own}")
        ends = [each for each in dict.fromkeys([own, *end_tokens]) if isinstance(each, int) and each < self.rows]
        if not 1 <= len(ends) <= len(END_KEYS):
            raise self.unknown("eos_token_id", ends, f"one to {len(END_KEYS)} tokens that end a reply")
        begin = self.tokenizer.bos_token_id if first is None else first
        unknown = self.whole["model"]["unk_token"]
        marks = {
            "bos": begin,
            "padding": self.tokenizer.pad_token_id,
            "unknown": self.tokenizer.unk_token_id if unknown is None else self.tokenizer.get_vocab().get(unknown),
        }
        there = {key: index for key, index in marks.items() if isinstance(index, int) and index < self.rows}
        if (first is not None and "bos" not in there) or (last is not None and last not in ends):
            raise self.unknown("post_processor", first, f"tokens below the embedding's {self.rows} rows")
        return {
            **spread(ends),
            **{f"tokenizer.ggml.{key}_token_id": index for key, index in there.items()},
            BEGINS: first is not None,
            CLOSES: last is not None,
        }

    def around(self) -> tuple[int | None, int | None]:
        """Return the tokens that begin and end every text, if any."""
        inner = self.tokenizer.encode("a", add_special_tokens=False)
        text = self.tokenizer.encode("a", add_special_tokens=True)
        found = [at for at in range(len(text)) if text[at : at + len(inner)] == inner]
        before, after = (text[: found[0]], text[found[0] + len(inner) :]) if inner and found else (text, text)
        if len(before) > 1 or len(after) > 1:
            raise self.unknown("post_processor", text, "at most one token before a text, and one behind it")
        return (before[0] if before else None), (after[0] if after else None)

    def unknown(self, field: str, value: object, allowed: str) -> ConfigError:
        return _unknown(self.where, field, value, allowed)


def _taken_over(metadata: Mapping[str, Value], rows: int) -> dict[str, Value]:
    """Copy a file's own keys; rows without a token get an unused one, tokens without a row are left out."""
    keys = {key: value for key, value in metadata.items() if key.startswith(_KEYS)}
    beyond = [
        key for key, value in keys.items() if key.endswith("_token_id") and isinstance(value, int) and value >= rows
    ]
    listed = keys.get(TOKENS)
    added = [f"[PAD{index}]" for index in range(len(listed) if isinstance(listed, list) else rows, rows)]
    for key, more in ((TOKENS, added), (KINDS, [int(TokenType.UNUSED)] * len(added)), (SCORES, [0.0] * len(added))):
        values = keys.get(key)
        if isinstance(values, list):
            keys[key] = [*values, *more][:rows]  # pyright: ignore[reportArgumentType]
    return {key: value for key, value in keys.items() if key not in beyond}


def _templates(template: object) -> dict[str, Value]:
    """Return the keys of a chat template, or of several by name, as in llama.cpp's conversion script."""
    if isinstance(template, str):
        return {TEMPLATE: template}
    if not isinstance(template, dict):
        return {}
    named = {str(name): str(text) for name, text in template.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    others = {name: text for name, text in named.items() if name != "default"}
    return {
        **({TEMPLATE: named["default"]} if "default" in named else {}),
        **({TEMPLATES: sorted(others)} if others else {}),
        **{f"{TEMPLATE}.{name}": text for name, text in others.items()},
    }


def _unknown(where: Path | None, field: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(
        f"{where}: llama.cpp has no name for how this tokenizer works",
        field=field,
        value=value,
        allowed=allowed,
        fix="export --to merged, and serve that folder",
    )
