"""Bodies of Anthropic's requests. Unsupported fields that would change the answer are rejected by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from tinsmith.renderers.turns import Speaker, Tool, Turn
from tinsmith.server.anthropic.blocks import Content, MessageParam, text_of
from tinsmith.server.chat.ask import Ask, Choice, Tools, opening_after, sample_with
from tinsmith.server.wire.body import Finite, Int32, Request
from tinsmith.server.wire.bounds import FailFast, ToolList, TurnList
from tinsmith.server.wire.settings import AdjustmentSettings, GrammarSettings, SamplingSettings
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind

_REMARKS = frozenset({"cache_control", "metadata", "service_tier", "user_profile_id"})
"""Accepted and ignored, since they change no token."""

_TOOL_REMARKS = frozenset({"cache_control", "eager_input_streaming"})

_CHOICES: Mapping[str, Choice] = MappingProxyType(
    {"auto": Choice.AUTO, "any": Choice.REQUIRED, "tool": Choice.REQUIRED, "none": Choice.NONE}
)


class ToolParam(Request):
    """A function that a reply may call."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: dict[str, JsonValue] | None = None
    strict: bool | None = None

    def tool(self, index: int) -> Tool:
        """Return the function in the common form.

        Raises:
            InputError: it is one of Anthropic's own tools, or has unknown fields.
        """
        if self.type not in (None, "custom") or self.input_schema is None:
            raise _unserved(f"tools[{index}].type", self.type, "tools of one's own: custom")
        for name, value in (self.model_extra or {}).items():
            if name not in _TOOL_REMARKS and value not in (None, False, []):
                raise _unserved(f"tools[{index}].{name}", value, "to leave it out")
        return Tool(
            name=self.name, description=self.description, parameters=self.input_schema, strict=bool(self.strict)
        )


class ChoiceParam(Request):
    """Choice of tools: free, required, or one of them."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(Request):
    """True if the model thinks before it answers."""

    type: str


class OutputFormat(Request):
    """Format of a reply."""

    type: str
    json_schema: Annotated[dict[str, JsonValue] | None, Field(alias="schema")] = None


class OutputConfig(Request):
    """Settings of a reply's output."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    format: OutputFormat | None = None


class CountRequest(Request):
    """POST /v1/messages/count_tokens; the fields that it shares with a request for a message."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", protected_namespaces=())

    model: str
    messages: Annotated[TurnList[MessageParam], Field(min_length=1)]
    system: Content | None = None
    tools: ToolList[ToolParam] | None = None
    tool_choice: ChoiceParam | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None

    def ask(self) -> Ask:
        """Return the request in a form common to all protocols.

        Raises:
            InputError: naming the unsupported field.
        """
        self._require_served()
        return Ask(
            model=self.model,
            turns=self._turns(),
            tools=self._tools(),
            opening=opening_after(self._turns()),
            thinks=None if self.thinking is None else False,
            sample=sample_with(self.sampling(), only_prompt=not isinstance(self, MessageRequest)),
            stops=self.stops,
            format_name=None if self.output_config is None else "output_config.format",
        )

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop texts."""
        return ()

    def sampling(self) -> SamplingSettings:
        """Return the settings for drawing tokens, if any are drawn."""
        return SamplingSettings(max_tokens=1)

    def _require_served(self) -> None:
        for name, value in (self.model_extra or {}).items():
            if value is not None and name not in _REMARKS:
                raise _unserved(name, value, "null, or to leave it out")
        if self.thinking is not None and self.thinking.type != "disabled":
            raise _unserved("thinking.type", self.thinking.type, "disabled, or to leave it out")
        extra = {} if self.output_config is None else self.output_config.model_extra or {}
        for name, value in extra.items():
            if value is not None:
                raise _unserved(f"output_config.{name}", value, "format alone")

    def _turns(self) -> tuple[Turn, ...]:
        system = text_of(self.system or "", "system")
        first = [Turn(speaker=Speaker.SYSTEM, content=system)] if system else []
        turns = [turn for i, message in enumerate(self.messages) for turn in message.turns(i)]
        return (*first, *turns)

    def _tools(self) -> Tools:
        choice = self.tool_choice or ChoiceParam(type="auto")
        if choice.type not in _CHOICES:
            raise _unserved("tool_choice.type", choice.type, ", ".join(_CHOICES))
        if (choice.type == "tool") is not (choice.name is not None):
            raise _unserved("tool_choice.name", choice.name, "a name with type tool, and only there")
        return Tools(
            offered=tuple(tool.tool(i) for i, tool in enumerate(self.tools or ())),
            choice=_CHOICES[choice.type],
            named=choice.name,
            parallel=not choice.disable_parallel_tool_use,
        )


class MessageRequest(CountRequest):
    """POST /v1/messages."""

    max_tokens: Int32
    stop_sequences: FailFast[list[str]] | None = None
    stream: bool | None = None
    temperature: Finite | None = None
    top_k: Int32 | None = None
    top_p: Finite | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop texts."""
        return tuple(self.stop_sequences or ())

    def sampling(self) -> SamplingSettings:
        """Return the settings for drawing tokens.

        Raises:
            InputError: a format other than a JSON schema.
        """
        return SamplingSettings(
            max_tokens=self.max_tokens,
            stop=list(self.stops) or None,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_k=self.top_k or -1,
            top_p=1.0 if self.top_p is None else self.top_p,
            adjustments=self._adjustments(),
        )

    def _adjustments(self) -> AdjustmentSettings | None:
        output_format = None if self.output_config is None else self.output_config.format
        if output_format is None:
            return None
        if output_format.type != "json_schema" or output_format.json_schema is None:
            raise _unserved("output_config.format.type", output_format.type, "json_schema with a schema")
        text = json.dumps(output_format.json_schema)
        return AdjustmentSettings(grammar=GrammarSettings(kind=GrammarKind.JSON_SCHEMA, text=text))


def _unserved(field: str, value: object, allowed: str) -> InputError:
    return InputError(
        "this parameter is not supported here, and ignoring it would change the answer",
        field=field,
        value=value,
        allowed=allowed,
    )
