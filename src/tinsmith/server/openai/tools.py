"""Tools of a chat in OpenAI's format: functions, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ConfigDict, JsonValue

from tinsmith.renderers.turns import Tool
from tinsmith.server.chat.ask import Choice, Tools
from tinsmith.server.wire.body import Request
from tinsmith.types.errors import InputError


class Function(Request):
    """Function with its name and description for the model."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    name: str
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None

    def tool(self) -> Tool:
        """Return the function in the common form."""
        return Tool(name=self.name, description=self.description, parameters=self.parameters, strict=bool(self.strict))


class FunctionTool(Request):
    """Tool; only functions are supported."""

    type: str
    function: Function | None = None


class FunctionName(Request):
    """A function by its name."""

    name: str


class NamedChoice(Request):
    """Choice of one function that must be called."""

    type: str
    function: FunctionName | None = None


def tools_of(tools: Sequence[FunctionTool] | None, choice: str | NamedChoice | None, parallel: bool | None) -> Tools:
    """Return the callable tools and the choice among them.

    Raises:
        InputError: another kind of tool or choice.
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
    """Parse OpenAI's name of a choice.

    Raises:
        InputError: it is unknown.
    """
    if word is None:
        return Choice.AUTO
    if word not in tuple(Choice):
        raise unknown_choice(word)
    return Choice(word)


def unknown_tool(field: str, kind: str) -> InputError:
    """Return the error for a tool that is not a function."""
    return InputError("this kind of tool is not supported", field=field, value=kind, allowed="function")


def unknown_choice(value: str) -> InputError:
    """Return the error for an unknown choice."""
    return InputError(
        "this choice of tools is not supported",
        field="tool_choice",
        value=value,
        allowed="auto, none, required, or a function's name",
    )
