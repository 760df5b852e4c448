"""Vocabulary of a file, read and checked: tokens, merges, kinds, marks, begin and end of a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from gguf import TokenType

from tinsmith.models.gguf.ends import TOKENS, kinds_by_text, token_id
from tinsmith.models.gguf.file import Value
from tinsmith.models.gguf.splits import RULES, SplitRule
from tinsmith.types.errors import CheckpointError, ConfigError

MODEL: Final = "tokenizer.ggml.model"
SPLIT: Final = "tokenizer.ggml.pre"
KINDS: Final = "tokenizer.ggml.token_type"
SCORES: Final = "tokenizer.ggml.scores"
MERGES: Final = "tokenizer.ggml.merges"
BEGINS: Final = "tokenizer.ggml.add_bos_token"
CLOSES: Final = "tokenizer.ggml.add_eos_token"
PREFIX_SPACE: Final = "tokenizer.ggml.add_space_prefix"
COMPOSES: Final = "tokenizer.tinsmith.nfc"
"""Key of our own: text is composed (NFC) before it is split. llama.cpp does not do that, and ignores the key."""

Mark = Literal["bos", "eos", "unknown", "padding"]
MARKS: Final[tuple[Mark, ...]] = ("bos", "eos", "unknown", "padding")
_SENTENCEPIECE_MARKS: Final[dict[Mark, int]] = {"bos": 1, "eos": 2, "unknown": 0}
_STRIPPING: Final = ("phi-3", "phi3")
"""Parts of the names of models whose marks strip the space behind them."""
BYTES: Final = tuple(f"<0x{byte:02X}>" for byte in range(256))
"""Tokens of a SentencePiece vocabulary for bytes of letters without a token."""
_LONGEST: Final = 1024
"""Most letters of a SentencePiece token: every split of it into two others is looked up."""
_NOT_STRIPPING: Final = ("<unk>", "<s>", "<|endoftext|>")


class Model(StrEnum):
    """Kind of vocabulary, by `tokenizer.ggml.model`."""

    BYTE_LEVEL = "gpt2"
    SENTENCEPIECE = "llama"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTokens:
    """Tokenizer described by a file."""

    model: Model
    rule: SplitRule | None
    """Rule that splits text before merging; None for SentencePiece, which does not split."""
    tokens: tuple[str, ...]
    kinds: tuple[TokenType, ...]
    merges: tuple[tuple[str, str], ...]
    marks: Mapping[Mark, int]
    begins: bool
    """True if a text begins with the begin token."""
    closes: bool
    """True if a text ends with the end token."""
    prefix_space: bool
    composes: bool
    stripping: frozenset[int]
    """Marks that strip the space behind them."""


def file_tokens(metadata: Mapping[str, Value], path: Path | None) -> FileTokens:
    """Read a file's vocabulary by llama.cpp's rules.

    Raises:
        ConfigError: the file has none, or one of another kind, or splits text by an unknown rule.
        CheckpointError: lists are inconsistent.
    """
    return _Reader(metadata, path).read()


@dataclass(frozen=True, slots=True)
class _Reader:
    metadata: Mapping[str, Value]
    path: Path | None

    def read(self) -> FileTokens:
        tokens = self._tokens()
        model = self._model()
        rule = self._rule() if model is Model.BYTE_LEVEL else None
        ids = {token: index for index, token in enumerate(tokens)}
        if len(ids) < len(tokens):
            twice = next(token for index, token in enumerate(tokens) if ids[token] != index)
            raise self._damaged("a token stands in the list twice", TOKENS, twice)
        kinds = self._kinds(ids)
        marks = self._marks(model, len(tokens))
        begins = self._flag(BEGINS, rule is None or rule.begins)
        closes = self._flag(CLOSES, False)
        for adds, key, mark in ((begins, BEGINS, MARKS[0]), (closes, CLOSES, MARKS[1])):
            if adds and mark not in marks:
                missing = f"tokenizer.ggml.{mark}_token_id"
                raise self._damaged(f"every text gets this token ({key}), and no key names it", missing, None)
        return FileTokens(
            model=model,
            rule=rule,
            tokens=tokens,
            kinds=kinds,
            merges=self._merges(ids) if rule is not None else self._merges_by_score(ids, kinds),
            marks=marks,
            begins=begins,
            closes=closes,
            prefix_space=rule is None and self._flag(PREFIX_SPACE, True),
            composes=self._flag(COMPOSES, False),
            stripping=self._stripping(tokens, kinds),
        )

    def _tokens(self) -> tuple[str, ...]:
        listed = self.metadata.get(TOKENS)
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise ConfigError(
                f"{self.path}: this file has no tokenizer",
                field=TOKENS,
                value=listed,
                allowed="a file with its tokenizer inside, as llama.cpp's conversion script writes it",
                fix="convert the model again with its tokenizer, or serve its folder",
            )
        return tuple(str(each) or f"[EMPTY_{index}]" for index, each in enumerate(listed))

    def _model(self) -> Model:
        named = self.metadata.get(MODEL)
        if named not in tuple(Model):
            raise ConfigError(
                f"{self.path}: tokenizers of this kind cannot be read",
                field=MODEL,
                value=named,
                allowed="gpt2 (byte-level BPE), llama (SentencePiece BPE)",
                fix="serve the model's own folder with its tokenizer.json",
            )
        return Model(str(named))

    def _rule(self) -> SplitRule:
        named = self.metadata.get(SPLIT, "")
        if not isinstance(named, str) or named not in RULES:
            raise ConfigError(
                f"{self.path}: the rule by which this tokenizer splits text is not known here",
                field=SPLIT,
                value=named,
                allowed=", ".join(name for name in RULES if name),
                fix="serve the model's own folder with its tokenizer.json",
            )
        return RULES[named]

    def _kinds(self, ids: Mapping[str, int]) -> tuple[TokenType, ...]:
        listed = self._list(KINDS, len(ids), [TokenType.NORMAL] * len(ids))
        known = {int(kind): kind for kind in TokenType}
        other = next((each for each in listed if not isinstance(each, int)), None)
        if other is not None:
            raise self._damaged("the kind of a token is a whole number", KINDS, other)
        kinds = [known.get(each, TokenType.UNUSED) for each in listed if isinstance(each, int)]
        for index, kind in kinds_by_text(self.metadata, ids).items():
            kinds[index] = kind
        return tuple(kinds)

    def _list(self, key: str, length: int, default: list[TokenType] | None) -> list[object]:
        listed = self.metadata.get(key, default)
        if not isinstance(listed, list) or len(listed) < length:
            value = len(listed) if isinstance(listed, list) else listed
            raise self._damaged(f"{key} has not one entry for each of {length} tokens", key, value)
        return list(listed[:length])

    def _marks(self, model: Model, num_tokens: int) -> dict[Mark, int]:
        marks: dict[Mark, int] = dict(_SENTENCEPIECE_MARKS) if model is Model.SENTENCEPIECE else {}
        for mark in MARKS:
            index = token_id(self.metadata, f"tokenizer.ggml.{mark}_token_id")
            if index is not None and 0 <= index < num_tokens:
                marks[mark] = index
        return {mark: index for mark, index in marks.items() if index < num_tokens}

    def _flag(self, key: str, default: bool) -> bool:
        value = self.metadata.get(key, default)
        if not isinstance(value, bool):
            raise self._damaged(f"{key} is true or false", key, value)
        return value

    def _merges(self, ids: Mapping[str, int]) -> tuple[tuple[str, str], ...]:
        listed = self.metadata.get(MERGES)
        if not isinstance(listed, list):
            raise self._damaged("a byte-level vocabulary has merges", MERGES, listed)
        merges: list[tuple[str, str]] = []
        for each in listed:
            left, _, right = str(each)[1:].partition(" ")
            pair = (str(each)[:1] + left, right)
            if not all(part in ids for part in (*pair, "".join(pair))):
                raise self._damaged("a merge is of tokens that are not in the list", MERGES, each)
            merges.append(pair)
        return tuple(dict.fromkeys(merges))

    def _merges_by_score(self, ids: Mapping[str, int], kinds: tuple[TokenType, ...]) -> tuple[tuple[str, str], ...]:
        scores = self._list(SCORES, len(ids), None)
        longest = max(ids, key=len, default="")
        if len(longest) > _LONGEST:
            raise self._damaged(f"a token has more than {_LONGEST} letters", TOKENS, longest)
        numbers = [float(each) for each in scores if isinstance(each, (int, float)) and not math.isnan(each)]
        if len(numbers) < len(scores):
            raise self._damaged("every score is a number", SCORES, "not a number")
        byte = next((spelled for spelled in BYTES if spelled not in ids), None)
        if byte is not None:
            raise self._damaged("a byte has no token, and texts would lose it", TOKENS, byte)
        return merges_by_score(ids, kinds, numbers)

    def _stripping(self, tokens: tuple[str, ...], kinds: tuple[TokenType, ...]) -> frozenset[int]:
        name = str(self.metadata.get("general.name", "")).lower()
        if not any(part in name for part in _STRIPPING):
            return frozenset()
        found = (index for index, kind in enumerate(kinds) if kind in MATCHED)
        return frozenset(index for index in found if tokens[index] not in _NOT_STRIPPING)

    def _damaged(self, what: str, field: str, value: object) -> CheckpointError:
        return CheckpointError(
            f"{self.path}: its tokenizer is damaged: {what}",
            field=field,
            value=value,
            fix="fetch the whole file again, or convert the model again",
        )


MATCHED: Final = (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN)
"""Kinds that are matched in a text by their spelling, before it is split."""


def merges_by_score(
    ids: Mapping[str, int], kinds: tuple[TokenType, ...], scores: list[float]
) -> tuple[tuple[str, str], ...]:
    """Return every merge that a SentencePiece vocabulary allows, best score first.

    SentencePiece joins any two tokens that make a third, best score first. Several splits of one token are in the order
    of transformers' conversion.
    """
    merges: list[tuple[float, int, int, tuple[str, str]]] = []
    for token, index in ids.items():
        if kinds[index] in MATCHED or kinds[index] is TokenType.BYTE:
            continue
        pairs = ((token[:at], token[at:]) for at in range(1, len(token)))
        there = sorted((ids[left], ids[right], left, right) for left, right in pairs if left in ids and right in ids)
        merges += [(-scores[index], -len(left), -len(right), (left, right)) for _, _, left, right in there]
    merges.sort(key=lambda each: each[:3])
    return tuple(pair for *_, pair in merges)
