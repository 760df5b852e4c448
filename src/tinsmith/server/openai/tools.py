"""The tools of a chat as OpenAI's clients write them: functions, and which of them have to be called."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ConfigDict, JsonValue

from tinsmith.renderers.turns import Tool
from tinsmith.server.chat.ask import Choice, Tools
from tinsmith.server.wire.body import Request
from tinsmith.types.errors import InputError


class Function(Request):
    """A function by its name, and what a model is told of it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    name: str
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None

    def tool(self) -> Tool:
        """The function, in the words of no protocol."""
        return Tool(name=self.name, description=self.description, parameters=self.parameters, strict=bool(self.strict))


class FunctionTool(Request):
    """A tool; only functions are known."""

    type: str
    function: Function | None = None


class FunctionName(Request):
    """A function by its name."""

    name: str


class NamedChoice(Request):
    """One function that has to be called."""

    type: str
    function: FunctionName | None = None


def tools_of(tools: Sequence[FunctionTool] | None, choice: str | NamedChoice | None, parallel: bool | None) -> Tools:
    """Return what may be called, and how.

    Raises:
        InputError: another kind of tool, or of choice.
    """
    offered: list[Tool] = []
    for i, tool in enumerate(tools or ()):
        if tool.function is None or tool.type != "function":
            raise unknown_tool(f"tools[{i}].type", tool.type)
        offered.append(tool.function.tool())
    named = None
    if isinstance(choice, NamedChoice):
        if choice.type != "function" or choice.function is None:
            raise unknown_choice(choice.type)
        named = choice.function.name
    return Tools(
        offered=tuple(offered),
        choice=choice_of(choice) if isinstance(choice, str) or choice is None else Choice.REQUIRED,
        named=named,
        parallel=parallel is not False,
    )


def choice_of(word: str | None) -> Choice:
    """Return what OpenAI's word for a choice means.

    Raises:
        InputError: it means nothing.
    """
    if word is None:
        return Choice.AUTO
    if word not in tuple(Choice):
        raise unknown_choice(word)
    return Choice(word)


def unknown_tool(field: str, kind: str) -> InputError:
    """The refusal of a tool that is no function."""
    return InputError("this kind of tool is not supported", field=field, value=kind, allowed="function")


def unknown_choice(value: str) -> InputError:
    """The refusal of another choice."""
    return InputError(
        "this choice of tools is not supported",
        field="tool_choice",
        value=value,
        allowed="auto, none, required, or a function's name",
    )
