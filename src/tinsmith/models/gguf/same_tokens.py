"""Comparison of two tokenizers, on texts on which tokenizers differ most."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tinsmith.types.errors import CheckpointError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_NUM_TEXTS: Final = 400
_LONGEST: Final = 24
"""Most parts of a text."""
_PARTS: Final = (
    *("the", "Then", "HELLO", "it's", "WE'LL", "don't", "naive", "x", "I", "camelCase", "snake_case"),
    *("na\u00efve", "A\u030angstro\u0308m", "e\u0301", "\u1e9e", "\u0130stanbul", "\u017f", "'\u017f"),
    *("\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd", "\u65e5\u672c\u8a9e", "\ud55c\uad6d\uc5b4"),
    *("\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e44\u0e17\u0e22", "\U0001f642", "\U0001f468\u200d\U0001f469"),
    *("0", "7", "42", "123456", "3.14", "1,000", "\u0663", "\u2460", "\u00bd", "\U00010330"),
    *(" ", " ", "  ", "   ", " " * 17, "\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u2003", "\u2581"),
    *(".", ",", "!?", "...", "()", "[", "{}", "/", "\\", "<", ">", "|", "$", "`", "\u3002", "\u2019"),
    *("\x00", "\x01", "\x7f", "\x85", "\u200b", "\u202e", "\ufeff", "\ufffd", "<s>", "</s>", "<unk>", "<0x0A>"),
)


def check_same_tokens(source: Tokenizer, exported: Tokenizer, *, rows: int, file: Path) -> None:
    """Compare tokens over seeded texts with every mark of either tokenizer; `rows` is the embedding's number of rows.

    Raises:
        CheckpointError: they differ; the message contains the text.
    """
    source = _within(source, rows)
    marks = {each.content for which in (source, exported) for each in which.get_added_tokens_decoder().values()}
    found = first_difference(lambda text: source.encode(text).ids, lambda text: exported.encode(text).ids, marks)
    if found is not None:
        raise other_tokens(found, file=file, fix="export --to merged, and serve that folder")


@dataclass(frozen=True, slots=True)
class Difference:
    """Text that two tokenizers read differently, and the first tokens of each from there on."""

    text: str
    at: int
    wanted: Sequence[int]
    made: Sequence[int]


def first_difference(
    source: Callable[[str], Sequence[int]], exported: Callable[[str], Sequence[int]], marks: Iterable[str]
) -> Difference | None:
    """Return the first probe text that becomes other tokens, and where; None if there is none."""
    for text in probe_texts(sorted(set(marks)), _NUM_TEXTS):
        wanted, made = source(text), exported(text)
        if wanted != made:
            at = next((i for i, pair in enumerate(zip(wanted, made, strict=False)) if pair[0] != pair[1]), 0)
            return Difference(text, at, wanted[at : at + 6], made[at : at + 6])
    return None


def other_tokens(found: Difference, *, file: Path, fix: str) -> CheckpointError:
    """Return the error for written files whose tokenizer is not the model's."""
    return CheckpointError(
        f"{file}: a text becomes other tokens by the file than by the model's tokenizer",
        field="tokenizer",
        value=found.text,
        allowed=f"{found.wanted} from token {found.at} on, and not {found.made}",
        fix=fix,
    )


def probe_texts(marks: list[str], count: int) -> list[str]:
    """Return texts of words, numbers, spaces, signs and letters of many kinds, with every mark at least once."""
    chosen = random.Random(0)
    texts = ["", " ", *(f"a{mark} b" for mark in marks)]
    parts = [*_PARTS, *marks[:64]]
    return texts + ["".join(chosen.choices(parts, k=chosen.randint(1, _LONGEST))) for _ in range(count)]


def _within(tokenizer: Tokenizer, rows: int) -> Tokenizer:
    """Remove the added tokens for which the model has no row."""
    from tokenizers import Tokenizer

    whole: Mapping[str, Any] = json.loads(tokenizer.to_str())
    beyond = [each for each in whole["added_tokens"] if each["id"] >= rows]
    if not beyond:
        return tokenizer
    within = [each for each in whole["added_tokens"] if each["id"] < rows]
    vocab = {token: index for token, index in whole["model"]["vocab"].items() if index < rows}
    return Tokenizer.from_str(
        json.dumps({**whole, "added_tokens": within, "model": {**whole["model"], "vocab": vocab}})
    )
