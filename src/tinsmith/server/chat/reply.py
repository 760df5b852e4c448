"""Incremental reader of a reply: its text, and its tool calls, each emitted once complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from tinsmith.renderers.tool_calls import CallReader, CallStyle, Piece
from tinsmith.renderers.turns import Json
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.sampling import StopReason


class Ending(StrEnum):
    """Reason for the end of a reply."""

    STOP = auto()
    LENGTH = auto()
    CALLS = auto()
    """The reply calls tools, and waits for their results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Tool call in a reply."""

    index: int
    """Index among the reply's calls."""
    id: str
    """Id of 24 letters, equal for equal answers to equal prompts; protocols add their own prefix."""
    name: str
    arguments: Json
    text: str
    """Arguments as JSON."""


Part = str | Call
"""Part of a reply: a text or a call."""


class Reply:
    """Reader of one reply. The parts do not depend on how the text arrives, except where texts are cut."""

    def __init__(self, style: CallStyle | None, *, prompt: str, index: int) -> None:
        """Read with `style` (None: no calls); `prompt` is a digest of the prompt, `index` the choice's."""
        self._reader = CallReader(style)
        self._prompt = prompt
        self._index = index
        self._ending: StopReason | None = None
        self.parts: list[Part] = []
        """Parts so far; adjacent texts are merged."""

    def add(self, text: str, reason: StopReason | None) -> Sequence[Part]:
        """Add text, the last of it if there is a `reason`; return the parts that are settled."""
        pieces = list(self._reader.add(text))
        if reason is not None:
            pieces += self._reader.end(cut=reason is StopReason.LENGTH)
        self._ending = reason
        return [self._take(piece) for piece in pieces]

    @property
    def text(self) -> str:
        """Text of the reply outside calls."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def calls(self) -> Sequence[Call]:
        """All calls so far."""
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def ending(self) -> Ending | None:
        """Reason for the end; None before it. A truncated reply counts as truncated even if it has calls."""
        if self._ending is StopReason.STOP:
            return Ending.CALLS if self.calls else Ending.STOP
        return None if self._ending is None else Ending.LENGTH

    def _take(self, piece: Piece) -> Part:
        if isinstance(piece, str):
            if self.parts and isinstance(self.parts[-1], str):
                self.parts[-1] += piece
            else:
                self.parts.append(piece)
            return piece
        index = len(self.calls)
        before = {"prompt": self._prompt, "choice": self._index, "text": self.text}
        fields = {"call": index, "name": piece.name, "arguments": piece.text}
        call = Call(
            index=index,
            id=sha256_of({**before, **fields})[:24],
            name=piece.name,
            arguments=piece.arguments,
            text=piece.text,
        )
        self.parts.append(call)
        return call
