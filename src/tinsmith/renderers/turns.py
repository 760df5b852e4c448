"""Turns of a conversation with tools, in the form for chat templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto

Json = Mapping[str, object]
"""JSON object."""

REASONING_NAMES = ("reasoning_content", "reasoning", "thinking")
"""Names under which templates look for a reply's reasoning."""


class Speaker(StrEnum):
    """Speaker in a conversation with tools; `Role` has those without."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Opening(StrEnum):
    """End of a prompt."""

    REPLY = auto()
    """Start of a new reply."""
    CONTINUED = auto()
    """Text of the last turn, a reply, which the model continues."""
    NOTHING = auto()
    """Last turn, closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Function call in a reply."""

    id: str
    name: str
    arguments: Json

    def shown(self) -> Json:
        """Return the call for templates, with its arguments as an object."""
        function = {"name": self.name, "arguments": dict(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Function that a reply may call."""

    name: str
    description: str | None = None
    parameters: Json | None = None
    """JSON schema of its arguments; None allows any object, and templates do not get it."""
    strict: bool = False
    """True if a call's arguments must satisfy the schema. Templates do not get this."""

    def shown(self) -> Json:
        """Return the function for templates."""
        function: dict[str, object] = {"name": self.name}
        if self.description is not None:
            function["description"] = self.description
        if self.parameters is not None:
            function["parameters"] = dict(self.parameters)
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Turn of a conversation."""

    speaker: Speaker
    content: str = ""
    reasoning: str | None = None
    """Reasoning before a reply, for templates that print it again; others leave it out."""
    name: str | None = None
    """Name of the speaker among several, or of the tool; templates may ignore it."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of a reply, after its text."""
    call_id: str | None = None
    """Id of the call that a tool's turn answers."""

    def shown(self) -> Json:
        """Return the turn for templates, without empty fields."""
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
