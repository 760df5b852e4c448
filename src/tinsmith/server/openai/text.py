"""Text of a choice as OpenAI's clients expect it: whole characters, without its stop text or end token.

The text is the same whether tokens arrive together or one by one.
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
    """New text of a choice."""

    text: str
    tokens: slice
    """Range of the choice's tokens that begin in this text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """Part of a choice that a client gets."""

    control: bool = True
    """True to spell control tokens in the text, except the one that ended it."""
    stop: bool = False
    """True to include the stop text."""
    every_token: bool = False
    """True to return every token, including the one that ended the choice and those drawn after the text's end."""


class Choice:
    """Choice in progress; it holds back text that may be part of a stop text or of a character."""

    def __init__(
        self, codec: Codec, *, stops: tuple[str, ...], ends: frozenset[int], shown: Shown | None = None
    ) -> None:
        self._codec = codec
        self._stops = stops
        self._ends = ends
        self._shown = shown or Shown()
        self._settled = ""
        """Text with every control token spelled, as stop texts are searched for."""
        self._removed: list[tuple[int, int]] = []
        """Begin and length in it of the control tokens that a client does not get."""
        self._waiting = b""
        """Incomplete bytes of a character."""
        self._begun = True
        """True if there is text before the next token."""
        self._border = 0
        self._sent = 0
        self._num_sent = 0
        self.first: int | None = None
        """Index of the first token of a text that follows nothing."""
        self._begins: list[int] = []
        """Position in the settled text at which each token begins."""

    @property
    def offsets(self) -> list[int]:
        """Position in the client's text at which each token begins."""
        return [self._shown_at(begin) for begin in self._begins] if self._removed else self._begins

    def follow(self, prompt: Sequence[int], *, silent: int) -> None:
        """Continue the text of the prompt; its first `silent` tokens have no text."""
        self._begun = len(prompt) > silent
        tail = b"".join(self._codec.bytes_of(token) for token in prompt[max(silent, len(prompt) - 4) :])
        self._waiting = tail[codecs.utf_8_decode(tail, "replace", False)[1] :]

    def echo(self, prompt: Sequence[int], *, silent: int, written: str | None) -> None:
        """Begin the text with that of the prompt, whose first `silent` tokens have none.

        A prompt `written` as text is returned unchanged, however it is tokenized, unless control tokens are removed.
        """
        self._begun = False
        self._begins += [0] * silent
        for token in prompt[silent:]:
            self._append(token)
        if written is not None and self._shown.control and (self._settled != written or self._waiting):
            known = self._codec.offsets(written, prompt[silent:])
            self._begins[silent:] = known or [min(offset, len(written)) for offset in self._begins[silent:]]
            self._settled, self._waiting = written, b""
        self._border = len(self._settled)

    def fork(self) -> Choice:
        """Return a copy with the same beginning."""
        other = copy(self)
        other._removed = list(self._removed)
        other._begins = list(self._begins)
        return other

    def add(self, tokens: Sequence[int], reason: StopReason | None) -> Grown:
        """Add tokens, the last ones if there is a `reason`, and return the settled growth."""
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
            end, count = len(whole), len(self._begins) - self._num_sent
            at = self._stopped_at(whole) if reason is StopReason.STOP else None
            if at is not None:
                end = max(self._sent, at)
                count = self._num_begun(end)
            if self._shown.every_token:
                self._begins = [min(offset, end) for offset in self._begins]
                self._begins += [end] * hidden
                count = len(self._begins) - self._num_sent
        grown = Grown(self._visible(whole, self._sent, end), slice(self._num_sent, self._num_sent + count))
        self._sent, self._num_sent = end, self._num_sent + count
        return grown

    def _num_begun(self, end: int) -> int:
        """Return the number of unsent tokens that begin before `end`."""
        return sum(offset < end for offset in self._begins[self._num_sent :])

    def _stopped_at(self, whole: str) -> int | None:
        """Return the end of a text at a stop text within the drawn tokens; None if there is none."""
        found = [(whole.find(stop, self._border), len(stop)) for stop in self._stops]
        at = min(((at, size) for at, size in found if at >= 0), default=None)
        return None if at is None else at[0] + (at[1] if self._shown.stop else 0)

    def _append(self, token: int) -> None:
        removed = not self._shown.control and token in self._codec.control
        added = self._codec.bytes_of(token) if self._begun or removed else self._codec.first_bytes(token)
        if not self._begun and not removed:
            self._begun, self.first = True, len(self._begins)
        if not self._begins and added and not 0x80 <= added[0] < 0xC0:
            self._waiting = b""  # nothing completes the character that the prompt had begun
        before = self._waiting.decode("utf-8", "replace") if added else ""
        both = (self._waiting + added).decode("utf-8", "replace")
        if both == before + added.decode("utf-8", "replace"):  # the token completes no character begun before it
            self._settled, self._waiting = self._settled + before, b"" if before else self._waiting
        self._begins.append(len(self._settled))
        text, length = codecs.utf_8_decode(self._waiting + added, "replace", False)
        if removed:
            self._removed.append((len(self._settled), len(text)))
        self._settled += text
        self._waiting = (self._waiting + added)[length:]

    def _shown_at(self, at: int) -> int:
        """Return the position in the client's text of a position in the settled one."""
        return at - sum(min(size, at - begin) for begin, size in self._removed if begin < at)

    def _visible(self, whole: str, begin: int, end: int) -> str:
        """Return the part of a text that a client gets."""
        parts: list[str] = []
        for at, size in self._removed:
            if at < end and at + size > begin:
                parts.append(whole[begin:at])
                begin = min(at + size, end)
        return "".join([*parts, whole[begin:end]])

    def _held(self, text: str) -> int:
        """Return the number of characters at the end that begin a stop text."""
        return max(
            (
                k
                for stop in self._stops
                for k in range(1, min(len(stop), len(text) - self._border + 1))
                if text.endswith(stop[:k])
            ),
            default=0,
        )
