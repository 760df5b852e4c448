"""Grammar of a reply, for the sampler, where calls of tools are required or must satisfy a schema.

JSON is demanded with the spaces that chat templates print, which is how models write it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import cast

from pydantic import JsonValue

from tinsmith.engine.grammars import WHITESPACE
from tinsmith.renderers.tool_calls import CLOSED, OPENED, CallStyle
from tinsmith.renderers.turns import Tool
from tinsmith.server.chat.ask import Choice, Tools
from tinsmith.server.wire.settings import AdjustmentSettings, GrammarSettings, SamplingSettings
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind

_ANY: dict[str, object] = {"type": "object"}
_SPACES = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_TEXT = r"TEXT: /(.|\n)*/"
_NO_OBJECT = _TEXT + r" & ~/[ \t\r\n]*\{(.|\n)*/"
"""A text in which no bare call can begin."""


def is_constrained(sampling: SamplingSettings, tools: Tools) -> bool:
    """True if replies have to match a grammar of calls."""
    formatted = sampling.adjustments is not None and sampling.adjustments.grammar is not None
    return tools.constrained or (bool(tools.shown) and formatted)


def constrain(sampling: SamplingSettings, tools: Tools, style: CallStyle, control: Collection[str]) -> SamplingSettings:
    """Return how tokens are drawn, so that a reply calls as `tools` say.

    `control` are the marks of calls that are one token, which a grammar names. A format that was asked for besides is
    that of replies without a call.

    Raises:
        InputError: another grammar was asked for besides.
    """
    adjusted = sampling.adjustments or AdjustmentSettings()
    grammar = _grammar(tools, style, control, adjusted.grammar)
    changed = adjusted.model_copy(update={"grammar": grammar})
    return sampling.model_copy(update={"adjustments": changed})


def _grammar(
    tools: Tools, style: CallStyle, control: Collection[str], answer: GrammarSettings | None
) -> GrammarSettings:
    """Return the grammar of a reply: calls, or its form without one."""
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
    """One or several calls and nothing else."""
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
    """Text in which whatever begins like a call is one."""
    opening = f"begun: TEXT {OPENED}" if OPENED in control else f'begun[lazy]: TEXT "{OPENED}"'
    start = "(begun rest)* TEXT" if tools.parallel else "TEXT | begun rest"
    return f"start: {start}\n{opening}\n{_TEXT}"


def _mark(mark: str, control: Collection[str]) -> str:
    return mark if mark in control else json.dumps(mark)


def _head(tool: Tool, style: CallStyle) -> str:
    return json.dumps(f'{{"name": {json.dumps(tool.name)}, "{style.arguments}": ')


def _arguments(tool: Tool) -> object:
    """The schema of a tool's arguments; the root of what it refers to stays its own."""
    return {**_ANY, **(tool.parameters or {}), "x-guidance": _SPACES}


def _call_or_answer(tools: Tools, answer: JsonValue) -> GrammarSettings:
    """A JSON object that is a call or an answer: one schema, as they may begin alike."""
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
    moved = {name: _moved(schema, f"#/$defs/{name}") for name, schema in schemas.items()}
    text = json.dumps({"anyOf": either, "$defs": moved})
    return GrammarSettings(kind=GrammarKind.JSON_SCHEMA, text=text)


def _moved(schema: JsonValue, place: str) -> JsonValue:
    """The same schema where its root is found at `place`."""
    if isinstance(schema, list):
        return [_moved(each, place) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: place + value[1:]
        if key == "$ref" and isinstance(value, str) and value.startswith("#")
        else _moved(value, place)
        for key, value in schema.items()
    }


def _spaced(answer: GrammarSettings) -> JsonValue:
    """The schema of the format that was asked for, with spaces as the engine has them in formats."""
    schema = _schema(answer)
    if not isinstance(schema, dict):
        return schema
    return {**schema, "x-guidance": {"whitespace_pattern": WHITESPACE}}


def _schema(answer: GrammarSettings) -> JsonValue:
    """The schema of the format that was asked for.

    Raises:
        InputError: it is no JSON's, and cannot stand beside calls.
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
