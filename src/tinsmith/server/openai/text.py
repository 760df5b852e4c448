"""A choice's text as OpenAI's clients expect it: whole characters, nothing of what ended it.

The same text comes out however the tokens come in, all at once or one by one.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from tinsmith.renderers.codec import Codec
from tinsmith.types.sampling import StopReason


@dataclass(frozen=True, slots=True)
class Grown:
    """Growth of a choice at one look."""

    text: str
    tokens: slice
    """Those of the choice's tokens that begin in this text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Part of a choice that a client sees."""

    control: bool = True
    """Control tokens are spelled in the text, except the one that ended it."""
    stop: bool = False
    """The text goes on to the end of what stopped it."""
    every_token: bool = False
    """Every token is told, also what ended the choice, and what was drawn after the text's end."""


class Choice:
    """One choice as it grows; keeps back what may be part of a stop text or of a character."""

    def __init__(
        self, codec: Codec, *, stops: tuple[str, ...], ends: frozenset[int], shown: Shown | None = None
    ) -> None:
        self._codec = codec
        self._stops = stops
        self._ends = ends
        self._shown = shown or Shown()
        self._settled = ""
        self._waiting = b""
        """The beginning of a character whose end has not come."""
        self._begun = True
        """True if there is text before the next token."""
        self._border = 0
        self._sent = 0
        self._told = 0
        self.first: int | None = None
        """The token, by its number, with which a text begins that follows nothing."""
        self.offsets: list[int] = []
        """Position in the text at which each token begins."""

    def follow(self, prompt: Sequence[int], *, silent: int) -> None:
        """Let the text go on where the prompt's ends; of the first `silent` tokens of the prompt there is no text."""
        self._begun = len(prompt) > silent
        tail = b"".join(self._codec.bytes_of(token) for token in prompt[max(silent, len(prompt) - 4) :])
        self._waiting = tail[codecs.utf_8_decode(tail, "replace", False)[1] :]

    def echo(self, prompt: Sequence[int], *, silent: int, written: str | None) -> None:
        """Let the text begin with the prompt's, the first `silent` tokens of which have none.

        A prompt that was `written` as text is that text, whatever the tokenizer makes of it, unless control tokens are
        to be left out.
        """
        self._begun = False
        self.offsets += [0] * silent
        for token in prompt[silent:]:
            self._append(token)
        if written is not None and self._shown.control and (self._settled != written or self._waiting):
            known = self._codec.offsets(written, prompt[silent:])
            self.offsets[silent:] = known or [min(offset, len(written)) for offset in self.offsets[silent:]]
            self._settled, self._waiting = written, b""
        self._border = len(self._settled)

    def fork(self) -> Choice:
        """Return a choice that has the same beginning."""
        other = copy(self)
        other.offsets = list(self.offsets)
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
            count = self._num_begun(end)
        else:
            whole += self._waiting.decode("utf-8", "replace")
            end, count = len(whole), len(self.offsets) - self._told
            at = self._stopped_at(whole) if reason is StopReason.STOP else None
            if at is not None:
                end = max(self._sent, at)
                count = self._num_begun(end)
            if self._shown.every_token:
                self.offsets = [min(offset, end) for offset in self.offsets]
                self.offsets += [end] * hidden
                count = len(self.offsets) - self._told
        grown = Grown(whole[self._sent : end], slice(self._told, self._told + count))
        self._sent, self._told = end, self._told + count
        return grown

    def _num_begun(self, end: int) -> int:
        """Return the number of tokens not yet sent that begin before `end`."""
        return sum(offset < end for offset in self.offsets[self._told :])

    def _stopped_at(self, whole: str) -> int | None:
        """Return the end of a text that a stop text ended, looked for in the drawn tokens; None: it goes on."""
        found = [(whole.find(stop, self._border), len(stop)) for stop in self._stops]
        at = min(((at, size) for at, size in found if at >= 0), default=None)
        return None if at is None else at[0] + (at[1] if self._shown.stop else 0)

    def _append(self, token: int) -> None:
        self.offsets.append(len(self._settled))
        if not self._shown.control and token in self._codec.control:
            return
        added = self._codec.bytes_of(token) if self._begun else self._codec.first_bytes(token)
        if not self._begun:
            self._begun, self.first = True, len(self.offsets) - 1
        if len(self.offsets) == 1 and added and not 0x80 <= added[0] < 0xC0:
            self._waiting = b""  # nothing goes on with the character that the prompt had begun
        text, length = codecs.utf_8_decode(self._waiting + added, "replace", False)
        self._settled += text
        self._waiting = (self._waiting + added)[length:]

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
