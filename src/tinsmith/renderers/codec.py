"""Conversion of text to tokens and back, through any tokenizer, with control tokens kept out of the text.

A token is the bytes that it adds to a text, and a text is the concatenation of its tokens' bytes. All conversions of
tokens to text (replies, streams, echoes, stops, log-probabilities, offsets) are here, so that they agree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from tinsmith.renderers.renderer import Message, ParsedResponse, ResponseOutcome, Role
from tinsmith.types.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NEVER = "(?!)"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_letters() -> dict[str, int]:
    """Return the letters that stand for bytes in byte-level vocabularies (GPT-2's table)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


_LETTERS = _byte_letters()


class Codec:
    """Text <-> tokens of one tokenizer, without added special tokens and clean-up."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, marks: Collection[int] = ()) -> None:
        """Read a tokenizer; `marks` are treated as control tokens even if it does not call them special."""
        added = tokenizer.added_tokens_decoder
        self._tokenizer = tokenizer
        self._ids = frozenset(tokenizer.get_vocab().values())  # they may have gaps
        self.added = {token: text.content for token, text in added.items()}
        """Added tokens by id: each text is a single token wherever it occurs."""
        self.control = frozenset(marks).union(token for token, text in added.items() if text.special)
        """Ids of the control tokens: marks of roles and turns, ends, padding."""
        self.mark = any_of(self.added[token] for token in self.control)
        """Pattern of the spellings of control tokens."""
        unknown = tokenizer.unk_token_id
        self._in_other_letters = frozenset(t for t in self.control if added[t].normalized and t != unknown)
        self._byte_level = _is_byte_level(tokenizer)
        self._anchor = self.encode("a")[-1:]
        self._anchored = self._decoded(self._anchor)
        self._bytes: dict[int, bytes] = {}
        self._first_bytes: dict[int, bytes] = {}

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of `text`; the spelling of a control token becomes that token."""
        try:
            return tuple(self._tokenizer.encode(text, add_special_tokens=False))
        except BaseException as error:
            if not is_failure(error):
                raise
            raise InputError(
                f"this model's tokenizer cannot read a text: {' '.join(str(error).split())[:200]}",
                field="prompt",
                value=text,
                fix="leave out what it has no tokens for",
            ) from error

    def opening(self) -> tuple[int, ...]:
        """Return the tokens that the tokenizer adds before a text, named or not."""
        plain = self.encode("a")
        whole = tuple(self._tokenizer.encode("a", add_special_tokens=True))
        starts = range(len(whole) - len(plain) + 1)
        at = next((i for i in starts if whole[i : i + len(plain)] == plain), 0)
        return whole[:at]

    def piece(self, token: int) -> str:
        """Return a token in the vocabulary's spelling; empty for an unknown id."""
        piece = self._tokenizer.convert_ids_to_tokens(token) if token >= 0 else None
        return piece if isinstance(piece, str) else ""

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text before it; empty for an unknown id."""
        if token not in self._bytes:
            self._bytes[token] = self._read(token, self._anchor)
        return self._bytes[token]

    def first_bytes(self, token: int) -> bytes:
        """Return a token's bytes at the very start of a text, where some tokenizers omit a space."""
        if token not in self._first_bytes:
            self._first_bytes[token] = self._read(token, ())
        return self._first_bytes[token]

    def decode(self, tokens: Sequence[int], *, follows: bool = False) -> str:
        """Return the text of `tokens`, control tokens spelled out; with `follows`, in the form after other text."""
        parts = [self.bytes_of(token) for token in tokens]
        if parts and not follows:
            parts[0] = self.first_bytes(tokens[0])
        return b"".join(parts).decode("utf-8", "replace")

    def offsets(self, text: str, tokens: Sequence[int]) -> list[int] | None:
        """Return the offset of each token in `text`, for tokenizers that change texts; None if unknown."""
        if not self._tokenizer.is_fast:
            return None
        read = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        if list(read["input_ids"]) != list(tokens):
            return None
        begins: list[int] = []
        for begin, _ in read["offset_mapping"]:
            begins.append(max(begin, begins[-1] if begins else 0))
        return begins

    def refuse_control_tokens(self, messages: Sequence[Message]) -> None:
        """Check that no content spells a control token, which would open or end a turn.

        Raises:
            InputError: naming the message and the control token.
        """
        for i, message in enumerate(messages):
            found = self.mark.search(message.content)
            if found is not None:
                raise InputError(
                    "a message spells one of the tokenizer's control tokens",
                    field=f"messages[{i}].content",
                    value=message.content[max(0, found.start() - 20) : found.end() + 20],
                    allowed=f"text without {found[0]}",
                    fix="break the mark up before rendering, for instance by a space inside it",
                )
            self.refuse_disguised(message.content, field=f"messages[{i}].content")

    def refuse_disguised(self, text: str, *, field: str) -> None:
        """Check that no other spelling in `text` becomes a control token, such as capitals that are lower-cased.

        Raises:
            InputError: naming the control token.
        """
        if not self._in_other_letters:
            return
        made = next((token for token in self.encode(text) if token in self._in_other_letters), None)
        if made is not None:
            raise InputError(
                "this model's tokenizer makes one of its control tokens of a message's letters",
                field=field,
                value=text,
                allowed=f"text without {self.added[made]}, in any letters that the tokenizer takes for it",
                fix="break the mark up before rendering, for instance by a space inside it",
            )

    def parse(self, tokens: Sequence[int], *, stops: Collection[int], follows: bool = False) -> ParsedResponse:
        """Return a reply that should end in one of `stops` as a message, with its outcome; see `decode`."""
        end = next((i for i, token in enumerate(tokens) if token in stops), None)
        body = tokens[:end]
        if end is None:
            outcome = ResponseOutcome.NO_STOP
        elif end + 1 < len(tokens) or any(self._not_text(token) for token in body):
            outcome = ResponseOutcome.MALFORMED
        else:
            outcome = ResponseOutcome.OK
        known = [token for token in body if token in self._ids]
        message = Message(role=Role.ASSISTANT, content=self.decode(known, follows=follows))
        return ParsedResponse(message=message, outcome=outcome)

    def _not_text(self, token: int) -> bool:
        return token in self.control or token not in self._ids

    def _read(self, token: int, before: tuple[int, ...]) -> bytes:
        """Return the bytes that `token` adds after `before`, which is the anchor or empty."""
        piece = self.piece(token)
        byte = None if self._byte_level else _BYTE.fullmatch(piece)
        if byte:  # even if it is an added token
            return bytes.fromhex(byte[1])
        if token in self.added:
            return self.added[token].encode()
        if not piece:
            return b""
        if self._byte_level:
            known = all(letter in _LETTERS for letter in piece)
            return bytes(_LETTERS[letter] for letter in piece) if known else piece.encode()
        both = self._decoded((*before, token))
        if before and both.startswith(self._anchored):
            return both[len(self._anchored) :].encode()
        return (self._decoded((token,)) if before else both).encode()

    def _decoded(self, tokens: Sequence[int]) -> str:
        """Return the tokenizer's own decoding of a single token; it spells added tokens wrongly."""
        text = self._tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)
        return text


def is_failure(error: BaseException) -> bool:
    """Return True if the tokenizers library failed: it raises Exception itself, or panics with another type."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches any of these texts, longer ones before those that they contain."""
    longest_first = sorted((text for text in texts if text), key=lambda text: (-len(text), text))
    return re.compile("|".join(re.escape(text) for text in longest_first) or _NEVER)


def _is_byte_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    """True if the letters of the vocabulary stand for bytes."""
    from transformers import PreTrainedTokenizerFast

    if isinstance(tokenizer, PreTrainedTokenizerFast) and tokenizer.backend_tokenizer.decoder is not None:
        return "ByteLevel" in repr(tokenizer.backend_tokenizer.decoder)
    vocab = tokenizer.get_vocab()
    return "\u0120" in vocab and "<0x00>" not in vocab
