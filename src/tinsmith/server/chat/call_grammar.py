"""Grammar for a reply in which tool calls are required or must satisfy a schema.

JSON is constrained to the spaces that chat templates print, as models write it that way.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import cast

from pydantic import JsonValue

from tinsmith.engine.grammars import ESCAPES, WHITESPACE
from tinsmith.renderers.tool_calls import CLOSED, OPENED, CallStyle
from tinsmith.renderers.turns import Tool
from tinsmith.server.chat.ask import Choice, Tools
from tinsmith.server.wire.settings import AdjustmentSettings, GrammarSettings, SamplingSettings
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind

_ANY: dict[str, object] = {"type": "object"}
_CALL_RULES = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "json_allowed_escapes": ESCAPES,
}
_FORMAT_RULES: dict[str, JsonValue] = {"whitespace_pattern": WHITESPACE, "json_allowed_escapes": ESCAPES}
_DATA = ("const", "enum")
_NAMES = ("properties", "patternProperties", "$defs", "definitions")
_TEXT = r"TEXT: /(.|\n)*/"
_NO_OBJECT = _TEXT + r" & ~/[ \t\r\n]*\{(.|\n)*/"
"""Lark expression for a text in which no bare call can begin."""


def is_constrained(sampling: SamplingSettings, tools: Tools) -> bool:
    """True if replies must match a grammar of calls."""
    formatted = sampling.adjustments is not None and sampling.adjustments.grammar is not None
    return tools.constrained or (bool(tools.shown) and formatted)


def constrain(sampling: SamplingSettings, tools: Tools, style: CallStyle, control: Collection[str]) -> SamplingSettings:
    """Return sampling settings under which a reply calls as `tools` require.

    `control` lists the call markers that are single tokens, which a grammar names. A requested format applies to
    replies without a call.

    Raises:
        InputError: another grammar is requested too.
    """
    adjusted = sampling.adjustments or AdjustmentSettings()
    grammar = _grammar(tools, style, control, adjusted.grammar)
    changed = adjusted.model_copy(update={"grammar": grammar})
    return sampling.model_copy(update={"adjustments": changed})


def _grammar(
    tools: Tools, style: CallStyle, control: Collection[str], answer: GrammarSettings | None
) -> GrammarSettings:
    """Return the grammar of a reply: calls, or its format without one."""
    calls = _calls(tools, style, control)
    if tools.choice is Choice.REQUIRED:
        rules = f"start: calls\n{calls}"
    elif answer is not None and style is CallStyle.BARE:
        return _call_or_answer(tools, _schema(answer))
    elif answer is not None:
        rules = f"start: calls | answer\nanswer: %json {json.dumps(_spaced(answer))}\n{calls}"
    elif style is CallStyle.BARE:
        rules = f"start: TEXT | calls\n{_NO_OBJECT}\n{calls}"
    else:
        rules = f"{_among_text(tools, control)}\n{calls}"
    return GrammarSettings(kind=GrammarKind.LARK, text=rules)


def _calls(tools: Tools, style: CallStyle, control: Collection[str]) -> str:
    """Return the grammar of one or several calls and nothing else."""
    named = [f"call_{i}" for i in range(len(tools.callable))]
    rules = [
        f"{name}: {_head(tool, style)} {name}_arguments {json.dumps('}')}\n"
        f"{name}_arguments: %json {json.dumps(_arguments(tool))}"
        for name, tool in zip(named, tools.callable, strict=True)
    ]
    rules.append(f"object: {' | '.join(named)}")
    if style is CallStyle.BARE:
        rules.append("calls: object")
        return "\n".join(rules)
    opened, closed, line = _mark(OPENED, control), _mark(CLOSED, control), json.dumps("\n")
    rules.append(f"rest: {line} object {line} {closed}")
    more = f" ({line} {opened} rest)*" if tools.parallel else ""
    rules.append(f"calls: {opened} rest{more}")
    return "\n".join(rules)


def _among_text(tools: Tools, control: Collection[str]) -> str:
    """Return the grammar of text in which everything that begins like a call is one."""
    opening = f"begun: TEXT {OPENED}" if OPENED in control else f'begun[lazy]: TEXT "{OPENED}"'
    start = "(begun rest)* TEXT" if tools.parallel else "TEXT | begun rest"
    return f"start: {start}\n{opening}\n{_TEXT}"


def _mark(mark: str, control: Collection[str]) -> str:
    return mark if mark in control else json.dumps(mark)


def _head(tool: Tool, style: CallStyle) -> str:
    return json.dumps(f'{{"name": {json.dumps(tool.name)}, "{style.arguments}": ')


def _arguments(tool: Tool) -> object:
    """Return the schema of a tool's arguments; internal references keep their own root."""
    return {**_ANY, **(tool.parameters or {}), "x-guidance": _CALL_RULES}


def _call_or_answer(tools: Tools, answer: JsonValue) -> GrammarSettings:
    """Return one schema for a JSON object that is a call or an answer, since both may begin alike."""
    schemas: dict[str, JsonValue] = {"answer": answer}
    for i, tool in enumerate(tools.callable):
        schemas[f"arguments_{i}"] = cast("JsonValue", _ANY | dict(tool.parameters or {}))
    calls: list[JsonValue] = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, CallStyle.BARE.arguments: {"$ref": f"#/$defs/arguments_{i}"}},
            "required": ["name", CallStyle.BARE.arguments],
            "additionalProperties": False,
        }
        for i, tool in enumerate(tools.callable)
    ]
    either = [*calls, {"$ref": "#/$defs/answer"}]
    moved = {name: _moved(_without_id(schema), f"#/$defs/{name}") for name, schema in schemas.items()}
    text = json.dumps({"anyOf": either, "$defs": moved})
    return GrammarSettings(kind=GrammarKind.JSON_SCHEMA, text=text)


def _without_id(schema: JsonValue) -> JsonValue:
    """Return a schema whose references are within the text that holds it."""
    return {key: value for key, value in schema.items() if key != "$id"} if isinstance(schema, dict) else schema


def _moved(schema: JsonValue, place: str, *, names: bool = False) -> JsonValue:
    """Move a schema so that its references find their root at `place`; `names` says that its keys are names."""
    if isinstance(schema, list):
        return [_moved(each, place) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved: dict[str, JsonValue] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and value.startswith("#"):
            moved[key] = place + value[1:]
        elif names or key not in _DATA:
            moved[key] = _moved(value, place, names=not names and key in _NAMES)
        else:
            moved[key] = value
    return moved


def _spaced(answer: GrammarSettings) -> JsonValue:
    """Return the schema of the requested format, with the rules that the engine has for formats."""
    schema = _schema(answer)
    if not isinstance(schema, dict):
        return schema
    return {**schema, "x-guidance": _FORMAT_RULES}


def _schema(answer: GrammarSettings) -> JsonValue:
    """Return the schema of the requested format.

    Raises:
        InputError: it is not JSON, and cannot be combined with calls.
    """
    if answer.kind is GrammarKind.JSON_OBJECT:
        return cast("JsonValue", _ANY)
    if answer.kind is GrammarKind.JSON_SCHEMA:
        return json.loads(answer.text)
    raise InputError(
        "a grammar for the whole reply and tools cannot both be",
        field="tools",
        value=answer.kind.value,
        allowed="tools with a JSON format, or one of the two",
    )
