"""Messages of Anthropic's clients: blocks of text, tool calls and tool results."""

from __future__ import annotations

from pydantic import ConfigDict, JsonValue

from tinsmith.renderers.turns import Speaker, ToolCall, Turn
from tinsmith.server.wire.body import Request
from tinsmith.server.wire.bounds import TurnList
from tinsmith.types.errors import InputError

_REMARKS = frozenset({"cache_control", "caller", "citations", "signature"})
"""Accepted and ignored, since they change no token."""


class Block(Request):
    """Block of a message. `is_error` has no effect: templates have no place for it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, JsonValue] | None = None
    tool_use_id: str | None = None
    content: str | TurnList[Block] | None = None
    is_error: bool | None = None

    def require_known(self, where: str, kinds: tuple[str, ...]) -> None:
        """Reject other kinds of blocks, and unknown fields.

        Raises:
            InputError: naming the field.
        """
        if self.type not in kinds:
            raise unread(f"{where}.type", self.type, ", ".join(kinds))
        for name, value in (self.model_extra or {}).items():
            if name not in _REMARKS and value is not None:
                raise unread(f"{where}.{name}", "given", "to leave it out")


Content = str | TurnList[Block]


class MessageParam(Request):
    """One message."""

    role: str
    content: Content

    def turns(self, index: int) -> list[Turn]:
        """Return the message as turns: each tool result is a turn of its own, before the user's text.

        Raises:
            InputError: for another role, or an unsupported block.
        """
        where = f"messages[{index}]"
        if self.role == "user":
            return _of_user(self.content, f"{where}.content")
        if self.role == "assistant":
            return [_of_assistant(self.content, f"{where}.content")]
        if self.role == "system":
            content = text_of(self.content, f"{where}.content")
            return [Turn(speaker=Speaker.SYSTEM, content=content)]
        raise unread(f"{where}.role", self.role, "user, assistant or system")


def text_of(content: Content, where: str) -> str:
    """Concatenate the text of text blocks.

    Raises:
        InputError: another kind of block.
    """
    if isinstance(content, str):
        return content
    for i, block in enumerate(content):
        block.require_known(f"{where}[{i}]", ("text",))
    return "".join(block.text or "" for block in content)


def unread(field: str, value: object, allowed: str) -> InputError:
    """Return the error for an unsupported block."""
    return InputError("only text and calls of tools can be read here", field=field, value=value, allowed=allowed)


def _of_user(content: Content, where: str) -> list[Turn]:
    if isinstance(content, str):
        return [Turn(speaker=Speaker.USER, content=content)]
    given: list[Turn] = []
    texts: list[Block] = []
    for i, block in enumerate(content):
        block.require_known(f"{where}[{i}]", ("text", "tool_result"))
        if block.type == "text":
            texts.append(block)
            continue
        if texts:
            raise unread(f"{where}[{i}].type", block.type, "what tools gave before all text")
        shown = text_of(block.content or "", f"{where}[{i}].content")
        given.append(Turn(speaker=Speaker.TOOL, content=shown, call_id=block.tool_use_id))
    if texts or not given:
        given.append(Turn(speaker=Speaker.USER, content=text_of(texts, where)))
    return given


def _of_assistant(content: Content, where: str) -> Turn:
    if isinstance(content, str):
        return Turn(speaker=Speaker.ASSISTANT, content=content)
    calls: list[ToolCall] = []
    for i, block in enumerate(content):
        block.require_known(f"{where}[{i}]", ("text", "tool_use", "thinking"))
        if block.type != "tool_use":
            continue
        if block.name is None:
            raise unread(f"{where}[{i}].name", None, "a tool's name")
        calls.append(ToolCall(id=block.id or "", name=block.name, arguments=block.input or {}))
    text = "".join(block.text or "" for block in content if block.type == "text")
    reasoning = "".join(block.thinking or "" for block in content if block.type == "thinking") or None
    return Turn(speaker=Speaker.ASSISTANT, content=text, reasoning=reasoning, calls=tuple(calls))
