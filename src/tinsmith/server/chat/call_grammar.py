"""What a reply has to look like where calls of tools are required, or must satisfy a schema: a grammar for the sampler.

JSON is demanded with the spaces that chat templates print, which is how models write it.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from tinsmith.renderers.tool_calls import CLOSED, OPENED, CallStyle
from tinsmith.renderers.turns import Tool
from tinsmith.server.chat.ask import Choice, Tools
from tinsmith.server.settings import AdjustmentSettings, GrammarSettings, SamplingSettings
from tinsmith.types.errors import InputError
from tinsmith.types.sampling import GrammarKind

_ANY = {"type": "object"}
_SPACES = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
_TEXT = r"TEXT: /(.|\n)*/"
_NO_OBJECT = _TEXT + r" & ~/[ \t\r\n]*\{(.|\n)*/"
"""A text in which no bare call can begin."""


def constrain(
    sampling: SamplingSettings, tools: Tools, style: CallStyle | None, control: Collection[str]
) -> SamplingSettings:
    """Return how tokens are drawn, so that a reply calls as `tools` say; `control` are the control tokens' spellings.

    A format that was asked for besides is that of replies without a call.

    Raises:
        InputError: another grammar was asked for besides.
    """
    adjusted = sampling.adjustments or AdjustmentSettings()
    if style is None or not (tools.constrained or (tools.shown and adjusted.grammar)):
        return sampling
    rules = [_calls(tools, style, control)]
    if tools.choice is Choice.REQUIRED:
        rules.insert(0, "start: calls")
    elif adjusted.grammar is not None:
        rules.insert(0, f"start: calls | answer\n{_answer(adjusted.grammar)}")
    elif style is CallStyle.BARE:
        rules.insert(0, f"start: TEXT | calls\n{_NO_OBJECT}")
    else:
        rules.insert(0, _among_text(tools, control))
    grammar = GrammarSettings(kind=GrammarKind.LARK, text="\n".join(rules))
    changed = adjusted.model_copy(update={"grammar": grammar})
    return sampling.model_copy(update={"adjustments": changed})


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
    return {**(_ANY if tool.parameters is None else tool.parameters), "x-guidance": _SPACES}


def _answer(grammar: GrammarSettings) -> str:
    """A reply in the format that was asked for.

    Raises:
        InputError: the grammar cannot stand inside another one.
    """
    if grammar.kind is GrammarKind.JSON_OBJECT:
        return f"answer: %json {json.dumps(_ANY)}"
    if grammar.kind is GrammarKind.JSON_SCHEMA:
        return f"answer: %json {grammar.text}"
    raise InputError(
        "a grammar for the whole reply and tools cannot both be",
        field="tools",
        value=grammar.kind.value,
        allowed="tools with a JSON format, or one of the two",
    )
