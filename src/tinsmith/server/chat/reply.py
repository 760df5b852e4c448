"""One reply to a chat as it grows: its text, and the calls of tools in it, each told once it is complete."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, auto

from tinsmith.renderers.tool_calls import CallReader, CallStyle, Piece
from tinsmith.renderers.turns import Json
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.sampling import StopReason


class Ending(StrEnum):
    """Reason that a reply ended."""

    STOP = auto()
    LENGTH = auto()
    CALLS = auto()
    """It calls tools, and waits for what they give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call in a reply."""

    index: int
    """Among the reply's calls."""
    id: str
    """24 letters, the same wherever the same is answered to the same prompt; protocols put their own word before it."""
    name: str
    arguments: Json
    text: str
    """The arguments as JSON."""


Part = str | Call
"""Part of a reply: a text or a call."""


class Reply:
    """Reads one reply. The parts are the same, however its text comes, but for how texts are cut."""

    def __init__(self, style: CallStyle | None, *, prompt: str, index: int) -> None:
        """`style` is None where nothing is read as a call; `prompt` is a mark of the prompt, `index` the choice's."""
        self._reader = CallReader(style)
        self._prompt = prompt
        self._index = index
        self._ending: StopReason | None = None
        self.parts: list[Part] = []
        """Parts so far; texts that follow each other are one."""

    def add(self, text: str, reason: StopReason | None) -> Sequence[Part]:
        """Take what has come, the last of it if there is a `reason`; return what may be told by now."""
        pieces = list(self._reader.add(text))
        if reason is not None:
            pieces += self._reader.end(cut=reason is StopReason.LENGTH)
        self._ending = reason
        return [self._take(piece) for piece in pieces]

    @property
    def text(self) -> str:
        """All of the reply that is no call."""
        return "".join(part for part in self.parts if isinstance(part, str))

    @property
    def calls(self) -> Sequence[Call]:
        """All calls so far."""
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def ending(self) -> Ending | None:
        """Reason that it ended; None while it goes on. A reply that was cut off is cut off, whatever it calls."""
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
