"""Bodies of the Responses API. Unsupported fields that would change the answer are rejected by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue

from tinsmith.renderers.turns import Speaker, Tool, Turn
from tinsmith.server.chat.ask import Ask, Choice, Tools, opening_after, sample_with
from tinsmith.server.openai.tools import choice_of, unknown_choice, unknown_tool
from tinsmith.server.responses.items import Item, turns_of
from tinsmith.server.wire.body import Finite, Int32, Request
from tinsmith.server.wire.bounds import ToolList, TurnList
from tinsmith.server.wire.settings import AdjustmentSettings, GrammarSettings, SamplingSettings
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind

_REMARKS = frozenset(
    {
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "stream_options",
        "user",
    }
)
"""Accepted and ignored, since they change no token."""

_NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = MappingProxyType(
    {
        "background": (False,),
        "include": ([],),
        "reasoning": ({}, {"effort": "none"}),
        "store": (False,),
        "top_logprobs": (0,),
        "truncation": ("disabled",),
    }
)
"""Values with which an unknown parameter has no effect."""


class FunctionTool(Request):
    """A function that a reply may call."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None

    def tool(self, index: int) -> Tool:
        """Return the function in the common form.

        Raises:
            InputError: it is one of OpenAI's own tools, or has unknown fields.
        """
        if self.type != "function":
            raise unknown_tool(f"tools[{index}].type", self.type)
        for name, value in (self.model_extra or {}).items():
            if value not in (None, False):
                raise _unserved(f"tools[{index}].{name}", value, "to leave it out")
        return Tool(name=self.name, description=self.description, parameters=self.parameters, strict=bool(self.strict))


class NamedChoice(Request):
    """Choice of one function that must be called."""

    type: str
    name: str | None = None


class Format(Request):
    """Format of a reply."""

    type: str
    name: str | None = None
    json_schema: Annotated[dict[str, JsonValue] | None, Field(alias="schema")] = None


class TextSettings(Request):
    """Settings of a reply's text."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow")
    format: Format | None = None
    verbosity: str | None = None


class ResponseRequest(Request):
    """POST /v1/responses."""

    model_config = ConfigDict(frozen=True, strict=True, extra="allow", protected_namespaces=())

    model: str
    input: str | TurnList[Item]
    instructions: str | None = None
    max_output_tokens: Int32 | None = None
    metadata: dict[str, JsonValue] | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    temperature: Finite | None = None
    text: TextSettings | None = None
    tool_choice: str | NamedChoice | None = None
    tools: ToolList[FunctionTool] | None = None
    top_p: Finite | None = None

    def ask(self) -> Ask:
        """Return the request in a form common to all protocols.

        Raises:
            InputError: naming the unsupported field.
        """
        for name, value in (self.model_extra or {}).items():
            if value is None or name in _REMARKS or value in _NEUTRAL.get(name, ()):
                continue
            neutral = " or ".join(repr(each) for each in _NEUTRAL.get(name, ()))
            raise _unserved(name, value, f"{neutral or 'null'}, or to leave it out")
        turns = self._turns()
        return Ask(
            model=self.model,
            turns=turns,
            turns_name="input",
            tools=self._tools(),
            opening=opening_after(turns),
            sample=sample_with(
                SamplingSettings(
                    max_tokens=self.max_output_tokens,
                    temperature=1.0 if self.temperature is None else self.temperature,
                    top_p=1.0 if self.top_p is None else self.top_p,
                    adjustments=self._adjustments(),
                )
            ),
            format_name=None if self.text is None else "text.format",
        )

    def _turns(self) -> tuple[Turn, ...]:
        first: list[Turn] = []
        if self.instructions:
            first.append(Turn(speaker=Speaker.SYSTEM, content=self.instructions))
        if isinstance(self.input, str):
            return (*first, Turn(speaker=Speaker.USER, content=self.input))
        return (*first, *turns_of(self.input))

    def _tools(self) -> Tools:
        named = None
        choice = self.tool_choice
        if isinstance(choice, NamedChoice):
            if choice.type != "function" or choice.name is None:
                raise unknown_choice(choice.type)
            named = choice.name
        return Tools(
            offered=tuple(tool.tool(i) for i, tool in enumerate(self.tools or ())),
            choice=Choice.REQUIRED if isinstance(choice, NamedChoice) else choice_of(choice),
            named=named,
            parallel=self.parallel_tool_calls is not False,
        )

    def _adjustments(self) -> AdjustmentSettings | None:
        settings = self.text or TextSettings()
        for name, value in (settings.model_extra or {}).items():
            if value is not None:
                raise _unserved(f"text.{name}", value, "format alone")
        if settings.verbosity not in (None, "medium"):
            raise _unserved("text.verbosity", settings.verbosity, "medium")
        output_format = settings.format or Format(type="text")
        if output_format.type == "text":
            return None
        if output_format.type == "json_object":
            return AdjustmentSettings(grammar=GrammarSettings(kind=GrammarKind.JSON_OBJECT))
        if output_format.type != "json_schema" or output_format.json_schema is None:
            raise _unserved("text.format.type", output_format.type, "text, json_object, json_schema")
        text = json.dumps(output_format.json_schema)
        return AdjustmentSettings(grammar=GrammarSettings(kind=GrammarKind.JSON_SCHEMA, text=text))


def _unserved(field: str, value: object, allowed: str) -> InputError:
    return InputError(
        "this parameter is not supported here, and ignoring it would change the answer",
        field=field,
        value=value,
        allowed=allowed,
    )
