"""Prompts of conversations with tools, equal to transformers' from the tokenizer's own chat template.

`ChatRenderer` is for training loops; it rejects a template that changes earlier turns. Here the template is free, as in
every other server: it may drop a reply's earlier reasoning, trim and move. All other contents must be present. Fields
without a place in the template, such as a turn's name, are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from tinsmith.renderers.chat import ChatRenderer
from tinsmith.renderers.chat_template import ChatTemplate
from tinsmith.renderers.spellings import Spellings
from tinsmith.renderers.tool_calls import CallStyle, call_style
from tinsmith.renderers.turns import Json, Opening, Speaker, Tool, ToolCall, Turn
from tinsmith.types.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_PROBE: Final = "probe_of_tools"
_OTHER: Final = Tool(name="another", description="", parameters={"type": "object", "properties": {}})
_OWN: Final = frozenset({"messages", "tools", "documents", "add_generation_prompt", "continue_final_message"})
"""Variables that have fields of their own in a request."""


class ConversationRenderer:
    """Chat template of one tokenizer, with tools if it supports them."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        template: ChatTemplate,
        *,
        end_tokens: Collection[int] = (),
        tools: bool = False,
    ) -> None:
        """Check that the template is usable, with `tools` or without.

        `end_tokens` are those of the model's config.

        Raises:
            ConfigError, InputError: it is not usable.
        """
        chat = ChatRenderer(tokenizer, template=template, end_tokens=end_tokens, tools=(_OTHER,) if tools else ())
        self.stop_tokens = chat.stop_sequences()
        """Stop sequences of a reply."""
        self.template = template
        self._spellings = Spellings(tokenizer, chat.codec)

    def prompt(
        self,
        turns: Sequence[Turn],
        *,
        tools: Sequence[Tool] = (),
        opening: Opening = Opening.REPLY,
        options: Mapping[str, object] | None = None,
    ) -> tuple[int, ...]:
        """Return the template's tokens; `options` are variables of its own.

        Raises:
            InputError: the template rejects the turns, leaves contents out, or does not support tools or an option.
        """
        if tools:
            self.require_tools()
        self._require_options(options or {})
        _require_opening(turns, opening)
        shown = [turn.shown() for turn in turns], [tool.shown() for tool in tools], options or {}
        hidden = self._spellings.hide(shown)
        messages, known, chosen = cast("tuple[list[Json], list[Json], dict[str, object]]", hidden.words)
        text = self.template.apply(messages, tools=known, opening=opening, options=chosen)
        _require_words(turns, hidden.restore(text))
        return self._spellings.encode(text, hidden)

    def require_tools(self) -> CallStyle:
        """Return the template's style of calls.

        Raises:
            InputError: it does not support tools, or its style of calls is unknown.
        """
        if not self._prints_tools:
            raise InputError(
                "the chat template of this model has no tools",
                field="tools",
                value="given",
                allowed="models whose template prints them, or to leave tools out",
            )
        if self._style is None:
            raise InputError(
                "the chat template of this model writes calls of tools in a way that cannot be read here",
                field="tools",
                value="given",
                allowed="<tool_call>{JSON}</tool_call> as Qwen 2.5 and 3, or bare JSON as Llama 3.1",
            )
        return self._style

    @cached_property
    def _prints_tools(self) -> bool:
        tool = replace(_OTHER, name=_PROBE)
        return _PROBE in self._probed((Turn(speaker=Speaker.USER, content="probe"),), (tool,))

    @cached_property
    def _style(self) -> CallStyle | None:
        call = ToolCall(id="call00000", name=_PROBE, arguments={"a": 1})
        user = Turn(speaker=Speaker.USER, content="probe")
        reply = Turn(speaker=Speaker.ASSISTANT, calls=(call,))
        return call_style(self._probed((user, reply), (_OTHER,)), _PROBE)

    def _probed(self, turns: Sequence[Turn], tools: Sequence[Tool]) -> str:
        """Return the template's text of these turns; empty if it rejects them."""
        shown = [turn.shown() for turn in turns]
        try:
            return self.template.apply(shown, tools=[tool.shown() for tool in tools])
        except InputError:
            return ""

    def _require_options(self, options: Mapping[str, object]) -> None:
        for option in options:
            if option in _OWN or not self.template.mentions(option):
                raise InputError(
                    "the chat template of this model has no such variable",
                    field=f"chat_template_kwargs.{option}",
                    value=options[option],
                    allowed="what the template reads, or to leave it out",
                )


def _require_opening(turns: Sequence[Turn], opening: Opening) -> None:
    last = turns[-1] if turns else None
    if last is None or (opening is Opening.CONTINUED and last.speaker is not Speaker.ASSISTANT):
        raise InputError(
            "there is nothing to reply to" if last is None else "there is no reply to go on with",
            field="messages",
            value=[turn.speaker.value for turn in turns],
            allowed="one or more, the last one the assistant's where it is to be continued",
        )
    if opening is Opening.CONTINUED and last.calls:
        raise InputError(
            "a reply that calls tools cannot be continued",
            field="messages",
            value=[call.name for call in last.calls],
            allowed="the tools' answers after it, or a last reply that is text alone",
        )


def _require_words(turns: Sequence[Turn], text: str) -> None:
    """Check that the template printed all calls and contents, as they are or as JSON; replies may be changed."""
    for turn in turns:
        for call in turn.calls:
            if call.name not in text:
                raise InputError(
                    "the chat template of this model leaves out the calls of tools",
                    field="messages",
                    value=call.name,
                    allowed="replies without calls, or a model whose template prints them",
                )
        content = turn.content.strip()
        if turn.speaker is Speaker.ASSISTANT or content in text:
            continue
        if json.dumps(content, ensure_ascii=False)[1:-1] not in text:
            raise InputError(
                f"the chat template of this model leaves out or rewrites the {turn.speaker}'s words",
                field="messages",
                value=content,
                fix="use a model whose chat template keeps every turn as it was written",
            )
