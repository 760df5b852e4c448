"""Styles of tool calls in a model's replies, and an incremental parser of calls.

The style of a chat template is determined by making it print a call. A call is parsed once it is complete; invalid
calls stay text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Never, cast

from tinsmith.renderers.turns import Json

OPENED, CLOSED = "<tool_call>", "</tool_call>"
PYTHON_TAG = "<|python_tag|>"
"""Tag that Llama 3.1 may put before a call."""


class CallStyle(StrEnum):
    """Form of the calls in a reply."""

    TAGGED = "tagged"
    """`<tool_call>`, a JSON object with name and arguments, `</tool_call>`: Hermes, Qwen 2.5 and 3."""
    BARE = "bare"
    """A JSON object with name and parameters, and nothing else: Llama 3.1."""

    @property
    def arguments(self) -> str:
        """Key of a call's arguments."""
        return "arguments" if self is CallStyle.TAGGED else "parameters"


@dataclass(frozen=True, slots=True)
class ReadCall:
    """Call as a reply spells it."""

    name: str
    arguments: Json

    @property
    def text(self) -> str:
        """The arguments as JSON."""
        return json.dumps(self.arguments, ensure_ascii=False)


Piece = str | ReadCall
"""Part of a reply: text or a call."""


def call_style(printed: str, name: str) -> CallStyle | None:
    """Return the style of a template that `printed` a call of `name`; None if it is unknown."""
    tagged = re.findall(f"{OPENED}(.*?){CLOSED}", printed, re.DOTALL)
    if tagged:  # the template may explain calls before there is one
        calls = [read_call(text, CallStyle.TAGGED) for text in tagged]
        return CallStyle.TAGGED if any(call is not None and call.name == name for call in calls) else None
    for found in re.finditer(r"\{", printed):
        calls = _bare_calls(printed[found.start() :], whole=False)
        if calls and calls[0].name == name:
            return CallStyle.BARE
    return None


def read_call(text: str, style: CallStyle) -> ReadCall | None:
    """Return the call that `text` is as a whole; None if it is not one."""
    try:
        return _call(_DECODER.decode(text), style)
    except (ValueError, RecursionError):
        return None


class CallReader:
    """Incremental parser of a reply. The pieces do not depend on how the text arrives.

    White space between a call and its neighbours belongs to the template, and is in no piece.
    """

    def __init__(self, style: CallStyle | None) -> None:
        """Parse calls of this style; None means that everything is text."""
        self._style = style
        self._held = ""
        self._after_call = False
        self._quoted = 0
        """Letters after the mark that opens a call in which every mark that closes one is part of a JSON string."""

    def add(self, text: str) -> Sequence[Piece]:
        """Add text; return the settled pieces."""
        if self._style is None:
            return (text,) if text else ()
        self._held += text
        return self._read_tagged() if self._style is CallStyle.TAGGED else self._read_bare()

    def end(self, *, cut: bool) -> Sequence[Piece]:
        """End the reply; return the text that was held back. A truncated reply (`cut`) does not end in a call."""
        pieces: list[Piece] = []
        if self._style is CallStyle.TAGGED and not cut:
            pieces += self._read_tagged(ended=True)
        if self._style is CallStyle.BARE:
            calls = _bare_calls(self._held.strip().removeprefix(PYTHON_TAG), whole=True)
            if calls and not cut:
                self._held = ""
                return calls
        if not (self._after_call and self._held.isspace()):
            pieces += self._text(self._held)
        self._held = ""
        return pieces

    def _read_tagged(self, *, ended: bool = False) -> Sequence[Piece]:
        pieces: list[Piece] = []
        while True:
            begin = self._held.find(OPENED)
            if begin < 0:
                keep = _held_letters(self._held)
                pieces += self._text(self._held[: len(self._held) - keep])
                self._held = self._held[len(self._held) - keep :]
                return pieces
            end, call = self._closing(begin + len(OPENED), ended)
            if end < 0:
                settled = self._held[:begin].rstrip()
                pieces += self._text(settled)
                self._held = self._held[len(settled) :]
                return pieces
            end += len(CLOSED)
            if call is None:
                pieces += self._text(self._held[:end])
            else:
                pieces += self._text(self._held[:begin].rstrip())
                pieces.append(call)
                self._after_call = True
            self._held = self._held[end:]
            self._quoted = 0

    def _closing(self, begin: int, ended: bool) -> tuple[int, ReadCall | None]:
        """Return the end of a call's text, -1 if it may be yet to come, and the call; the last one needs no mark."""
        first = self._held.find(CLOSED, begin)
        end = self._held.find(CLOSED, begin + self._quoted)
        while end >= 0:
            text = self._held[begin:end]
            call = read_call(text, CallStyle.TAGGED)
            if call is not None:
                return end, call
            if not _ends_in_string(text):
                return first, None
            self._quoted = end + len(CLOSED) - begin
            end = self._held.find(CLOSED, begin + self._quoted)
        call = read_call(self._held[begin:], CallStyle.TAGGED) if ended else None
        return (len(self._held), call) if call is not None else (first if ended else -1, None)

    def _read_bare(self) -> Sequence[Piece]:
        begun = self._held.lstrip()
        if not begun or begun.startswith("{") or PYTHON_TAG.startswith(begun[: len(PYTHON_TAG)]):
            return ()
        text, self._held, self._style = self._held, "", None
        return (text,)

    def _text(self, text: str) -> Sequence[str]:
        if self._after_call:
            text = text.lstrip()
        self._after_call = self._after_call and not text
        return (text,) if text else ()


def _ends_in_string(text: str) -> bool:
    """True if a JSON value with a string that has not ended begins with `text`."""
    try:
        _DECODER.decode(text)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        return False
    return False


def _held_letters(text: str) -> int:
    """Return the number of letters at the end that may be white space before a call, or its beginning."""
    begun = next((k for k in range(len(OPENED) - 1, 0, -1) if text.endswith(OPENED[:k])), 0)
    return len(text) - len(text[: len(text) - begun].rstrip())


def _bare_calls(text: str, *, whole: bool) -> Sequence[ReadCall]:
    """Return the calls with which `text` begins; none unless a `whole` text consists of calls."""
    calls: list[ReadCall] = []
    rest = text.strip()
    while rest:
        try:
            value, end = _DECODER.raw_decode(rest)
            call = _call(value, CallStyle.BARE)
        except (ValueError, RecursionError):
            call, end = None, 0
        if call is None:
            return () if whole else calls
        calls.append(call)
        rest = rest[end:].lstrip("; \t\r\n")
    return calls


def _call(value: object, style: CallStyle) -> ReadCall | None:
    """Convert a JSON value to a call.

    Raises:
        ValueError, RecursionError: it cannot be encoded as JSON again.
    """
    if not isinstance(value, dict):
        return None
    found = cast("dict[str, object]", value)
    name, arguments = found.get("name"), found.get(style.arguments)
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    call = ReadCall(name, cast("Json", arguments))
    f"{name}{call.text}".encode()  # a lone surrogate is not valid text
    return call


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        return _no_number(digits)
    return value


def _no_number(word: str) -> Never:
    raise ValueError(f"{word} is no number of JSON")


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_no_number)
