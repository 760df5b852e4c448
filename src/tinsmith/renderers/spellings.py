"""Control tokens that a client's text only spells: they reach the model as text, and do not affect turns.

Before the template is applied, each such spelling is replaced by a placeholder of private letters. So every mark in the
output is the template's own, and the text between two marks is encoded as plain text. (transformers'
`sanitize_control_tokens` cuts the text at every spelling, and switches a tokenizer that other threads are using.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, cast

from tinsmith.renderers.codec import Codec
from tinsmith.types.errors import InputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

_PRIVATE = range(0xE000, 0xF900)
"""Letters from Unicode's private use area."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Client's texts with placeholders, and their originals."""

    words: object
    """JSON value of the same shape as the original, with its texts replaced."""
    spelled: tuple[str, ...]
    stand_in: re.Pattern[str]

    def restore(self, text: str) -> str:
        """Return `text` with the originals restored."""
        return self.stand_in.sub(lambda found: self.spelled[int(found[1])], text)


class Spellings:
    """Control tokens of one tokenizer, and the encoding of their spellings as text."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, codec: Codec) -> None:
        self._tokenizer = tokenizer
        self._codec = codec
        added = tokenizer.added_tokens_decoder.values()
        self._takes_before = frozenset(token.content for token in added if token.lstrip)
        self._takes_after = frozenset(token.content for token in added if token.rstrip)

    def hide(self, words: object) -> Hidden:
        """Replace every control token's spelling in the JSON value `words`.

        Raises:
            InputError: a text that UTF-8 cannot encode, or that spells a control token in other letters.
        """
        used = frozenset[str]().union(*_texts(words))
        broken = "".join(sorted(letter for letter in used if "\ud800" <= letter <= "\udfff"))
        if broken:
            raise InputError(
                "a message is text that UTF-8 can hold",
                field="messages",
                value=broken,
                allowed="anything but lone surrogates (U+D800 to U+DFFF)",
                fix="read the text with errors='replace', or drop these characters",
            )
        for text in _texts(words):
            self._codec.refuse_disguised(self._codec.mark.sub(" ", text), field="messages")
        edge = next(chr(code) for code in _PRIVATE if chr(code) not in used)
        spelled: list[str] = []

        def exchange(match: re.Match[str]) -> str:
            spelled.append(match[0])
            return f"{edge}{len(spelled) - 1}{edge}"

        hidden = _changed(words, lambda text: self._codec.mark.sub(exchange, text))
        return Hidden(hidden, tuple(spelled), re.compile(f"{edge}([0-9]+){edge}"))

    def encode(self, text: str, hidden: Hidden) -> tuple[int, ...]:
        """Return the tokens of a template's text with the placeholders of `hidden`.

        Raises:
            InputError: there are some, and this tokenizer encodes a stretch of text differently on its own.
        """
        if hidden.stand_in.search(text) is None:
            return self._codec.encode(text)
        self._require_stretches(hidden.spelled[0])
        tokens: tuple[int, ...] = ()
        done, begin, before = 0, 0, ""
        for mark in (*self._codec.mark.finditer(text), None):
            end, after = (len(text), "") if mark is None else (mark.start(), mark[0])
            if hidden.stand_in.search(text, begin, end) is not None:
                stretch = text[begin:end]
                stretch = stretch.lstrip() if before in self._takes_after else stretch
                stretch = stretch.rstrip() if after in self._takes_before else stretch
                tokens += self._codec.encode(text[done:begin])
                tokens += self._literal(hidden.restore(stretch))
                done = end
            if mark is not None:
                begin, before = mark.end(), after
        return tokens + self._codec.encode(text[done:])

    @cached_property
    def _backend(self) -> Tokenizer | None:
        """Copy the tokenizer without control tokens, since another thread may be using it."""
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerFast

        if not isinstance(self._tokenizer, PreTrainedTokenizerFast):
            return None
        values = json.loads(self._tokenizer.backend_tokenizer.to_str())
        for added in values["added_tokens"]:
            added["special"] = added["special"] or added["id"] in self._codec.control
        copy = Tokenizer.from_str(json.dumps(values))
        copy.encode_special_tokens = True
        return copy

    def _literal(self, text: str) -> tuple[int, ...]:
        assert self._backend is not None, "looked at before"
        return tuple(self._backend.encode(text, add_special_tokens=False).ids)

    @cached_property
    def _reads_stretches(self) -> bool:
        """True if text after a control token is encoded as it is alone: some tokenizers add a space before it."""
        mark = next(iter(sorted(self._codec.control)), None)
        if mark is None or self._backend is None:
            return False
        spelled, probe = self._codec.decode((mark,)), "probe"
        return self._codec.encode(spelled + probe) == (mark, *self._literal(probe))

    def _require_stretches(self, spelled: str) -> None:
        if not self._reads_stretches:
            raise InputError(
                "a message spells a control token, and this tokenizer reads text otherwise at its beginning",
                field="messages",
                value=spelled,
                allowed=f"text without {spelled}",
                fix="break the mark up, for instance by a space inside it",
            )


def _texts(words: object) -> Iterator[str]:
    if isinstance(words, str):
        yield words
    elif isinstance(words, Mapping):
        for key, value in cast("Mapping[str, object]", words).items():
            yield key
            yield from _texts(value)
    elif isinstance(words, Sequence):
        for each in cast("Sequence[object]", words):
            yield from _texts(each)


def _changed(words: object, change: Callable[[str], str]) -> object:
    """Return `words` with every text changed, keys too."""
    if isinstance(words, str):
        return change(words)
    if isinstance(words, Mapping):
        pairs = cast("Mapping[str, object]", words).items()
        return {change(key): _changed(value, change) for key, value in pairs}
    if isinstance(words, Sequence):
        return [_changed(each, change) for each in cast("Sequence[object]", words)]
    return words
