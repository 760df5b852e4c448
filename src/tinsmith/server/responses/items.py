"""Input of the Responses API's clients: messages, calls of functions, and their results."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ConfigDict

from tinsmith.renderers.turns import Speaker, ToolCall, Turn
from tinsmith.server.openai.messages import SPEAKERS, arguments_of, unread
from tinsmith.server.wire.body import Request
from tinsmith.server.wire.bounds import TurnList

_TEXTS = ("input_text", "output_text", "text")
_REMARKS = frozenset({"annotations", "logprobs", "phase", "prompt_cache_breakpoint", "status"})
"""Fields of an answer's items beside their content; they change no token."""


class Part(Request):
    """A piece of a content; only text is understood."""

    type: str
    text: str | None = None


Content = str | TurnList[Part]


class Item(Request):
    """One item: its type is that of a message, where it has none."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str = "message"
    id: str | None = None
    role: str | None = None
    content: Content | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: Content | None = None

    def turn(self, index: int) -> Turn:
        """Return the turn that it is, or is a part of.

        Raises:
            InputError: for another type or role, or for what is not text.
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
        kinds = "message, function_call, function_call_output"
        raise unread(f"{where}.type", self.type, kinds)


def turns_of(items: Sequence[Item]) -> list[Turn]:
    """Return the turns that these items are: calls belong to the reply before them.

    Raises:
        InputError: as `Item.turn`.
    """
    turns: list[Turn] = []
    for i, item in enumerate(items):
        turn = item.turn(i)
        last = turns[-1] if turns else None
        if turn.calls and last is not None and last.speaker is Speaker.ASSISTANT:
            calls = (*last.calls, *turn.calls)
            turns[-1] = Turn(speaker=Speaker.ASSISTANT, content=last.content, calls=calls)
        else:
            turns.append(turn)
    return turns


def _text(content: Content | None, where: str) -> str:
    if content is None:
        raise unread(where, None, "a text, or parts of type input_text or output_text")
    if isinstance(content, str):
        return content
    for i, part in enumerate(content):
        if part.type not in _TEXTS or part.text is None:
            raise unread(f"{where}[{i}].type", part.type, ", ".join(_TEXTS))
    return "".join(part.text or "" for part in content)
