"""Input items of the Responses API's clients: messages, reasoning, function calls and their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pydantic import ConfigDict

from tinsmith.renderers.turns import Speaker, ToolCall, Turn
from tinsmith.server.openai.messages import SPEAKERS, arguments_of, unread
from tinsmith.server.wire.body import Request
from tinsmith.server.wire.bounds import TurnList

_TEXTS = ("input_text", "output_text", "text")
_REASONING_TEXTS, _SUMMARY_TEXTS = ("reasoning_text", "text"), ("summary_text",)
_REMARKS = frozenset({"annotations", "logprobs", "phase", "prompt_cache_breakpoint", "status"})
"""Accepted and ignored fields of an answer's items; they change no token."""


class Part(Request):
    """Part of a content; only text is supported."""

    type: str
    text: str | None = None


Content = str | TurnList[Part]


class Item(Request):
    """Input item; the default type is a message."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str = "message"
    id: str | None = None
    role: str | None = None
    content: Content | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: Content | None = None
    summary: TurnList[Part] | None = None
    """Summary of a reasoning without content."""

    def turn(self, index: int) -> Turn:
        """Return the turn of this item, or its part of one.

        Raises:
            InputError: for another type or role, or for content that is not text.
        """
        where = f"input[{index}]"
        for name, value in (self.model_extra or {}).items():
            if name not in _REMARKS and value not in (None, [], ""):
                raise unread(f"{where}.{name}", "given", "to leave it out")
        if self.type == "message":
            role = self.role or ""
            if role not in SPEAKERS or role == Speaker.TOOL:
                raise unread(f"{where}.role", role, "user, assistant, system or developer")
            content = _text(self.content, f"{where}.content")
            return Turn(speaker=SPEAKERS[role], content=content)
        if self.type == "function_call":
            arguments = arguments_of(self.arguments or "", f"{where}.arguments")
            if self.name is None:
                raise unread(f"{where}.name", None, "a function's name")
            call = ToolCall(id=self.call_id or "", name=self.name, arguments=arguments)
            return Turn(speaker=Speaker.ASSISTANT, calls=(call,))
        if self.type == "function_call_output":
            output = _text(self.output, f"{where}.output")
            return Turn(speaker=Speaker.TOOL, content=output, call_id=self.call_id)
        if self.type == "reasoning":
            reasoning = _text(self.content or "", f"{where}.content", _REASONING_TEXTS)
            summary = _text(self.summary or "", f"{where}.summary", _SUMMARY_TEXTS)
            return Turn(speaker=Speaker.ASSISTANT, reasoning=reasoning or summary or None)
        kinds = "message, reasoning, function_call, function_call_output"
        raise unread(f"{where}.type", self.type, kinds)


def turns_of(items: Sequence[Item]) -> list[Turn]:
    """Combine items into turns: calls join the reply before them, a reasoning the one after it.

    Raises:
        InputError: see `Item.turn`; or no reply follows a reasoning.
    """
    turns: list[Turn] = []
    reasoned: dict[int, str] = {}
    """Reasonings still without a reply, by their places."""
    for i, item in enumerate(items):
        turn = item.turn(i)
        if item.type == "reasoning":
            reasoned |= {} if turn.reasoning is None else {i: turn.reasoning}
            continue
        if turn.speaker is not Speaker.ASSISTANT:
            _require_none(reasoned)
        last = turns[-1] if turns else None
        if turn.calls and last is not None and last.speaker is Speaker.ASSISTANT:
            turn = replace(last, calls=(*last.calls, *turn.calls))
            turns.pop()
        reasoning = "".join([turn.reasoning or "", *reasoned.values()])
        turns.append(replace(turn, reasoning=reasoning or None))
        reasoned.clear()
    _require_none(reasoned)
    return turns


def _require_none(reasoned: Iterable[int]) -> None:
    for i in reasoned:
        raise unread(f"input[{i}].type", "reasoning", "before the reply or the call that it led to")


def _text(content: Content | None, where: str, types: Sequence[str] = _TEXTS) -> str:
    if content is None:
        raise unread(where, None, f"a text, or parts of type {' or '.join(types)}")
    if isinstance(content, str):
        return content
    for i, part in enumerate(content):
        if part.type not in types or part.text is None:
            raise unread(f"{where}[{i}].type", part.type, ", ".join(types))
    return "".join(part.text or "" for part in content)
