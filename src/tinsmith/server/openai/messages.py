"""Chat messages of OpenAI's clients; only text and tool calls are supported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from pydantic import ConfigDict

from tinsmith.renderers.turns import Json, Speaker, ToolCall, Turn
from tinsmith.server.wire.body import Request
from tinsmith.server.wire.bounds import TurnList
from tinsmith.types.errors import InputError

SPEAKERS: Mapping[str, Speaker] = MappingProxyType(
    {**{speaker.value: speaker for speaker in Speaker}, "developer": Speaker.SYSTEM}
)
"""Roles by OpenAI's names: `developer` is the newer name of the system role."""


class Part(Request):
    """Part of a message; only text is supported."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str
    text: str | None = None


class CalledFunction(Request):
    """Called function, with its arguments as JSON."""

    name: str
    arguments: str


class CallMessage(Request):
    """Call in a reply."""

    id: str = ""
    type: str = "function"
    function: CalledFunction


class ChatMessage(Request):
    """One turn."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    role: str
    content: str | TurnList[Part] | None = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """Reasoning text under vLLM's name."""
    tool_calls: TurnList[CallMessage] | None = None
    tool_call_id: str | None = None

    def turn(self, index: int) -> Turn:
        """Return the turn for the renderer.

        Raises:
            InputError: for another role, for content that is not text, or for a field of another role.
        """
        where = f"messages[{index}]"
        if self.role not in SPEAKERS:
            raise unread(f"{where}.role", self.role, ", ".join(SPEAKERS))
        speaker = SPEAKERS[self.role]
        for name, value in (self.model_extra or {}).items():
            if value not in (None, [], ""):
                raise unread(f"{where}.{name}", value, "role, name, content and calls of tools")
        if self.tool_calls and speaker is not Speaker.ASSISTANT:
            raise unread(f"{where}.tool_calls", "given", "in an assistant's message")
        reasoning = self.reasoning_content or self.reasoning
        if reasoning and speaker is not Speaker.ASSISTANT:
            raise unread(f"{where}.reasoning_content", "given", "in an assistant's message")
        if self.reasoning and self.reasoning != reasoning:
            raise unread(f"{where}.reasoning", self.reasoning, "the same as reasoning_content, or one of the two")
        if self.tool_call_id is not None and speaker is not Speaker.TOOL:
            raise unread(f"{where}.tool_call_id", self.tool_call_id, "in a tool's message")
        if self.content is None and not self.tool_calls:
            raise unread(f"{where}.content", None, "a text, or parts of type text")
        return Turn(
            speaker=speaker,
            content=text_of(self.content or "", f"{where}.content"),
            reasoning=reasoning,
            name=self.name,
            calls=tuple(_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(self.tool_calls or ())),
            call_id=self.tool_call_id,
        )


def text_of(content: str | list[Part], where: str) -> str:
    """Concatenate the text parts of a content.

    Raises:
        InputError: a part is not text.
    """
    if isinstance(content, str):
        return content
    text = ""
    for i, part in enumerate(content):
        if part.type != "text" or part.text is None:
            raise unread(f"{where}[{i}].type", part.type, "text")
        text += part.text
    return text


def arguments_of(text: str, where: str) -> Json:
    """Return a call's arguments as an object for templates; no arguments give an empty one.

    Raises:
        InputError: they are not a JSON object.
    """
    try:
        value: object = json.loads(text or "{}")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InputError(
            "the arguments of a call are a JSON object",
            field=where,
            value=text,
            allowed='a text like \'{"city": "Oslo"}\'',
        )
    return cast("Json", value)


def unread(field: str, value: object, allowed: str) -> InputError:
    """Return the error for content that is not text."""
    return InputError("only text is supported here", field=field, value=value, allowed=allowed)


def _call(call: CallMessage, where: str) -> ToolCall:
    if call.type != "function":
        raise unread(f"{where}.type", call.type, "function")
    arguments = arguments_of(call.function.arguments, f"{where}.function.arguments")
    return ToolCall(id=call.id, name=call.function.name, arguments=arguments)
