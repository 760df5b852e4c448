"""Fields of OpenAI's and vLLM's conversation requests besides the messages: tools, and the start of the reply."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ConfigDict, JsonValue

from tinsmith.renderers.turns import Opening, Turn
from tinsmith.server.chat.ask import Tools, opening_after
from tinsmith.server.openai.messages import ChatMessage
from tinsmith.server.openai.tools import FunctionTool, NamedChoice, tools_of
from tinsmith.server.wire.body import Request
from tinsmith.server.wire.bounds import ToolList
from tinsmith.types.errors import InputError


class Conversed(Request):
    """Request with a conversation."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", protected_namespaces=())

    tools: ToolList[FunctionTool] | None = None
    tool_choice: str | NamedChoice | None = None
    parallel_tool_calls: bool | None = None
    add_generation_prompt: bool | None = None
    """False if the prompt ends with the last message."""
    continue_final_message: bool | None = None
    """True if the last message is a reply to be continued."""
    chat_template_kwargs: dict[str, JsonValue] | None = None
    """Variables for the model's own chat template."""

    def offered_tools(self) -> Tools:
        """Return the tools that may be called, and the choice among them.

        Raises:
            InputError: for unsupported tools.
        """
        return tools_of(self.tools, self.tool_choice, self.parallel_tool_calls)

    def opening(self, turns: tuple[Turn, ...]) -> Opening:
        """Return the end of the prompt by vLLM's two switches; by default a final reply is continued.

        Raises:
            InputError: they exclude each other.
        """
        if self.continue_final_message:
            if self.add_generation_prompt:
                raise InputError(
                    "a reply is either begun or continued",
                    field="add_generation_prompt",
                    value=True,
                    allowed="false or null with continue_final_message = true",
                )
            return Opening.CONTINUED
        if self.continue_final_message is None and self.add_generation_prompt is None:
            return opening_after(turns)
        return Opening.NOTHING if self.add_generation_prompt is False else Opening.REPLY


def turns_of(messages: Sequence[ChatMessage]) -> tuple[Turn, ...]:
    """Return the turns of a conversation.

    Raises:
        InputError: naming the unsupported message.
    """
    return tuple(message.turn(i) for i, message in enumerate(messages))
