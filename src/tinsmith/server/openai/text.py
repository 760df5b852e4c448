"""A model's tokens as the text that OpenAI's clients expect: whole characters, nothing of what ended it.

The same text comes out however the tokens come in, all at once or one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tinsmith.renderers.codec import Codec
from tinsmith.renderers.conversation import ConversationRenderer
from tinsmith.types.sampling import StopReason

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PENDING = 16
"""Tokens that may wait for the rest of a character; no character has more than four bytes."""

_BROKEN = "\ufffd"
_SPACE, _BYTE = "\u2581", re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_letters() -> dict[str, int]:
    """The letters that byte-level vocabularies write bytes with (GPT-2's table)."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


_LETTERS = _byte_letters()


class ModelText:
    """One model's tokenizer: prompts to tokens, tokens to text and bytes."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self.codec = Codec(tokenizer)
        self._byte_level = "\u0120" in tokenizer.get_vocab()
        opening = tokenizer.encode("", add_special_tokens=True)
        self._opening = (opening[0],) if opening and opening[0] == tokenizer.bos_token_id else ()

    @cached_property
    def conversation(self) -> ConversationRenderer:
        """The renderer that follows the model's chat template.

        Raises:
            ConfigError: it has none, or one that cannot be followed.
        """
        return ConversationRenderer(self._tokenizer)

    def prompt(self, text: str, *, begin: bool = True) -> tuple[int, ...]:
        """A completion's prompt: after the begin token where the tokenizer puts one; spelled control tokens count."""
        return (self._opening if begin else ()) + self.codec.encode(text)

    @property
    def num_opening(self) -> int:
        """Tokens that `prompt` puts before a text's own."""
        return len(self._opening)

    def piece(self, token: int) -> str:
        """A token as the vocabulary writes it; empty for an id that it does not have."""
        piece = self._tokenizer.convert_ids_to_tokens(token)
        return piece if isinstance(piece, str) else ""

    def bytes_of(self, token: int) -> bytes:
        """What one token adds to the text; empty for a token that has no text."""
        piece = self.piece(token)
        if token in self.codec.control:
            return piece.encode()
        if self._byte_level and all(letter in _LETTERS for letter in piece):
            return bytes(_LETTERS[letter] for letter in piece)
        byte = _BYTE.fullmatch(piece)
        return bytes.fromhex(byte[1]) if byte else piece.replace(_SPACE, " ").encode()


@dataclass(frozen=True, slots=True)
class Grown:
    """What one look at a choice adds."""

    text: str
    tokens: slice
    """Those of the choice's tokens that begin in this text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a client sees of a choice."""

    control: bool = True
    """Control tokens are spelled in the text, except the one that ended it."""
    stop: bool = False
    """The text goes on to the end of what stopped it."""
    every_token: bool = False
    """Every token is told, also what ended the choice, and what was drawn after the text's end."""


class Choice:
    """One choice as it grows; keeps back what may be part of a stop text or of a character."""

    def __init__(
        self, text: ModelText, *, stops: tuple[str, ...], ends: frozenset[int], shown: Shown | None = None
    ) -> None:
        self._codec = text.codec
        self._stops = stops
        self._ends = ends
        self._shown = shown or Shown()
        self._tokens: list[int] = []
        self._settled = ""
        self._context, self._read = 0, 0
        self._border = 0
        self._sent = 0
        self._told = 0
        self.offsets: list[int] = []
        """Where in the text each token begins."""

    def echo(self, prompt: Sequence[int], *, silent: int) -> None:
        """Let the text begin with the prompt's, the first `silent` tokens of which have none."""
        self.offsets += [0] * silent
        for token in prompt[silent:]:
            self._append(token)
        self._border = len(self._settled)

    def fork(self) -> Choice:
        """Return a choice that has the same beginning."""
        other = copy(self)
        other._tokens, other.offsets = list(self._tokens), list(self.offsets)
        return other

    def add(self, tokens: Sequence[int], reason: StopReason | None) -> Grown:
        """Take the next tokens, the last ones if there is a `reason`, and return what is certain by now."""
        ended = reason is StopReason.STOP and bool(tokens) and tokens[-1] in self._ends
        hidden = ended and not self._shown.stop
        for token in tokens[:-1] if hidden else tokens:
            self._append(token)
        whole = self._settled
        if reason is None:
            end = max(self._sent, len(whole) - self._held(whole))
            count = self._begun(end)
        else:
            whole += self._waiting()
            end, count = len(whole), len(self.offsets) - self._told
            at = self._stopped_at(whole) if reason is StopReason.STOP else None
            if at is not None:
                end = max(self._sent, at)
                count = self._begun(end)
            if self._shown.every_token:
                self.offsets = [min(offset, end) for offset in self.offsets]
                self.offsets += [end] * hidden
                count = len(self.offsets) - self._told
        grown = Grown(whole[self._sent : end], slice(self._told, self._told + count))
        self._sent, self._told = end, self._told + count
        return grown

    def _begun(self, end: int) -> int:
        """How many tokens that were not told begin before `end`."""
        return sum(offset < end for offset in self.offsets[self._told :])

    def _stopped_at(self, whole: str) -> int | None:
        """Where the text ends that a stop text ended; it is looked for in what was drawn."""
        found = [(whole.find(stop, self._border), len(stop)) for stop in self._stops]
        at = min(((at, size) for at, size in found if at >= 0), default=None)
        return None if at is None else at[0] + (at[1] if self._shown.stop else 0)

    def _append(self, token: int) -> None:
        self.offsets.append(len(self._settled))
        if not self._shown.control and token in self._codec.control:
            return
        self._tokens.append(token)
        new = self._waiting()
        if (new and not new.endswith(_BROKEN)) or len(self._tokens) - self._read >= PENDING:
            self._settled += new
            self._context, self._read = self._read, len(self._tokens)

    def _waiting(self) -> str:
        """Text of the tokens that are not settled, decoded after those before them, as tokenizers differ at a start."""
        before = self._codec.decode(self._tokens[self._context : self._read])
        return self._codec.decode(self._tokens[self._context :])[len(before) :]

    def _held(self, text: str) -> int:
        """Letters at the end that begin a stop text."""
        return max(
            (
                k
                for stop in self._stops
                for k in range(1, min(len(stop), len(text) - self._border + 1))
                if text.endswith(stop[:k])
            ),
            default=0,
        )
