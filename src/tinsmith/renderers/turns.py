"""A conversation with tools, as a chat template is given it: who speaks, what is called, what a call gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

Json = Mapping[str, object]
"""An object as JSON holds it."""

REASONING_NAMES = ("reasoning_content", "reasoning", "thinking")
"""By which templates know a reply's reasoning."""


class Speaker(StrEnum):
    """Speaker in a conversation with tools; `Role` has those of one without."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Opening(StrEnum):
    """End of a prompt."""

    REPLY = auto()
    """The beginning of a reply."""
    CONTINUED = auto()
    """The text of the last turn, a reply, which the model goes on with."""
    NOTHING = auto()
    """The last turn, closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A function that a reply calls."""

    id: str
    name: str
    arguments: Json

    def shown(self) -> Json:
        """The call, as templates take it: with its arguments as an object."""
        function = {"name": self.name, "arguments": dict(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that a reply may call."""

    name: str
    description: str | None = None
    parameters: Json | None = None
    """The JSON schema of its arguments; None: any object, and the template is not told."""
    strict: bool = False
    """True if a call's arguments must satisfy the schema. Templates are not told."""

    def shown(self) -> Json:
        """The function, as templates take it."""
        function: dict[str, object] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        if self.parameters is not None:
            function["parameters"] = dict(self.parameters)
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a conversation."""

    speaker: Speaker
    content: str = ""
    reasoning: str | None = None
    """Reasoning before a reply, for templates that show it again; others leave it out."""
    name: str | None = None
    """Name of the speaker among several, or of the tool; a template that does not print it ignores it."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of a reply, after its text."""
    call_id: str | None = None
    """The call that a tool's turn answers."""

    def shown(self) -> Json:
        """The turn, as templates take it: without what it does not have."""
        turn: dict[str, object] = {"role": self.speaker.value, "content": self.content}
        if self.reasoning is not None:
            turn |= dict.fromkeys(REASONING_NAMES, self.reasoning)
        if self.name is not None:
            turn["name"] = self.name
        if self.calls:
            turn["tool_calls"] = [call.shown() for call in self.calls]
        if self.call_id is not None:
            turn["tool_call_id"] = self.call_id
        return turn
