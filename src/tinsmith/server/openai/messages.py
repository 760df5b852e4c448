"""A chat's messages as OpenAI's clients write them; only text, and the calls of tools, are understood."""

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
"""Speakers by OpenAI's roles: the developer is the system's later name."""


class Part(Request):
    """A piece of a message; only text is understood."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str
    text: str | None = None


class CalledFunction(Request):
    """A function that a reply called, with its arguments as JSON."""

    name: str
    arguments: str


class CallMessage(Request):
    """A call in a reply."""

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
    """The same by the name that vLLM has for it."""
    tool_calls: TurnList[CallMessage] | None = None
    tool_call_id: str | None = None

    def turn(self, index: int) -> Turn:
        """Return the turn as the renderer takes it.

        Raises:
            InputError: for another role, for what is not text, or for what does not belong to the role.
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
    """Return a content's text, its parts one after the other.

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
    """Return a call's arguments; templates take them as an object, and none at all as an empty one.

    Raises:
        InputError: they are no JSON object.
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
    """The refusal of what is not text."""
    return InputError("only text is supported here", field=field, value=value, allowed=allowed)


def _call(call: CallMessage, where: str) -> ToolCall:
    if call.type != "function":
        raise unread(f"{where}.type", call.type, "function")
    arguments = arguments_of(call.function.arguments, f"{where}.function.arguments")
    return ToolCall(id=call.id, name=call.function.name, arguments=arguments)
