"""Tools of a task: typed functions called by name in replies, recorded results, and compositions of them."""

from __future__ import annotations

import csv
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final, NewType, get_type_hints

from tinsmith.types.errors import ConfigError, DataError, TaskError

_CALL: Final = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)
_PLAIN: Final[Mapping[object, Callable[[str], object]]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
}
"""Readers of arguments, by type."""
ERROR: Final = "error: "
"""Begins what a model hears of a call that went wrong."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Function with its parameter types and return type."""

    name: str
    function: Callable[..., object]
    inputs: Mapping[str, object]  # Types by parameter.
    output: object

    @property
    def signature(self) -> str:
        """Name, parameters and types."""
        takes = ", ".join(f"{name}: {_name(kind)}" for name, kind in self.inputs.items())
        return f"{self.name}({takes}) -> {_name(self.output)}"


@dataclass(frozen=True, slots=True)
class Call:
    """A reply that calls a tool, read by the types of its parameters."""

    tool: Tool
    arguments: tuple[object, ...]

    def __str__(self) -> str:
        """Return the call in canonical spelling, by which it is recorded."""
        return f"{self.tool.name}({', '.join(map(_spelled, self.arguments))})"


def _spelled(argument: object) -> str:
    """Return an argument as it is read again: in quotes, where it would not be read as one without them."""
    text = str(argument)
    plain = text == text.strip(" '\"") and "," not in text and '"' not in text
    return text if plain else '"{}"'.format(text.replace('"', '""'))


@dataclass(frozen=True, slots=True)
class Tools:
    """Tools of a task by name; create them with `tools_of`."""

    tools: Mapping[str, Tool]
    record: Mapping[str, str] | None = None  # Results by call, in place of the functions; None: these are run.

    def described(self) -> str:
        """Return a line for each tool, for a prompt: its signature, and the first line of its docstring."""
        words = {name: (inspect.getdoc(one.function) or "").partition("\n")[0] for name, one in self.tools.items()}
        return "\n".join(f"{one.signature}: {words[name]}".rstrip(": ") for name, one in self.tools.items())

    def edges(self) -> Iterator[tuple[Tool, Tool, str]]:
        """Yield every pair of tools of which the output of the first feeds a parameter of the second, and its name."""
        for first in self.tools.values():
            for second in self.tools.values():
                yield from ((first, second, name) for name, kind in second.inputs.items() if kind == first.output)

    def read(self, text: str) -> Call | str | None:
        """Return the call in a reply, its error, or None if the reply calls nothing."""
        found = _CALL.fullmatch(text)
        if found is None:
            return None
        name, inside = found.groups()
        tool = self.tools.get(name)
        if tool is None:
            return f"{ERROR}no tool {name}; there are {', '.join(self.tools)}"
        try:
            given = next(csv.reader([inside], skipinitialspace=True), [])
            kinds = [_PLAIN[_plain(kind)] for kind in tool.inputs.values()]
            return Call(tool, tuple(kind(one.strip(" '\"")) for kind, one in zip(kinds, given, strict=True)))
        except (ValueError, KeyError, csv.Error):
            return f"{ERROR}it is {tool.signature}"

    def answer(self, text: str) -> str | None:
        """Return the result of a reply's call; None if it calls no tool.

        The model is told what is wrong with a call, and a LookupError or ValueError of the function.

        Raises:
            TaskError: there is a record, and this call is not in it.
        """
        call = self.read(text)
        if not isinstance(call, Call):
            return call
        if self.record is None:
            try:
                return str(call.tool.function(*call.arguments))
            except (LookupError, ValueError) as error:
                return f"{ERROR}{error.args[0] if error.args else type(error).__name__}"
        if str(call) not in self.record:
            raise TaskError(f"this call is not in the record: {call}")
        return self.record[str(call)]

    def replayed(self, record: Mapping[str, str] | Path | str) -> Tools:
        """Return these tools with recorded results: a mapping of calls, a run's folder, or a JSONL file.

        A call that is not in it fails its rollout, which then has no reward.
        """
        return replace(self, record=record if isinstance(record, Mapping) else self.recorded(Path(record)))

    def missed(self, calls: Iterable[str]) -> list[str]:
        """Return the calls that are not in the record."""
        return [
            one for one in calls if isinstance(call := self.read(one), Call) and str(call) not in (self.record or ())
        ]

    def recorded(self, place: Path) -> dict[str, str]:
        """Read the calls in a run's folder or a file of rollouts, with their results.

        Raises:
            DataError: there are none, or a call brought two results, so that it cannot be replayed.
        """
        file = place / "rollouts.jsonl" if place.is_dir() else place
        if not file.is_file():
            raise DataError("there is no such file", field="record", value=str(file))
        results: dict[str, str] = {}
        for (
            line
        ) in file.read_bytes().splitlines():  # of a text they would end at U+2028 too, which JSON leaves as it is
            turns = json.loads(line).get("turns", ())
            for reply, result in zip(turns[::2], turns[1::2], strict=False):
                call = self.read(reply["text"])
                if isinstance(call, Call) and results.setdefault(str(call), result["text"]) != result["text"]:
                    what = "a call brought two results, and cannot be replayed"
                    raise DataError(what, field="record", value=f"{call}: {results[str(call)]!r}, {result['text']!r}")
        return results


def tools_of(*functions: Callable[..., object]) -> Tools:
    """Return functions as tools; each needs type hints for every parameter and its result.

    Types are str, int, float, bool, or a `NewType` of one of them, which says what feeds what.

    Raises:
        ConfigError: a function has no name, types or parameters of this kind, or two have one name.
    """
    tools: dict[str, Tool] = {}
    for function in functions:
        name = getattr(function, "__name__", "")
        kinds = get_type_hints(function) if name.isidentifier() else {}
        parameters = inspect.signature(function).parameters
        if {*parameters, "return"} != set(kinds) or any(_plain(kinds[one]) not in _PLAIN for one in parameters):
            allowed = "a function that names its types: str, int, float, bool, or a NewType of one of them"
            raise ConfigError("this cannot be called by a model", field="tools", value=name, allowed=allowed)
        if name in tools:
            raise ConfigError("two tools have one name", field="tools", value=name)
        tools[name] = Tool(name, function, {one: kinds[one] for one in parameters}, kinds["return"])
    return Tools(tools)


def _plain(kind: object) -> object:
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    return kind


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))


Values = Mapping[Any, Iterable[str]]  # By type.


@dataclass(frozen=True, slots=True)
class Piece:
    """Known value, or the result of a tool called with the values of `parts`."""

    value: str
    call: str = ""
    parts: tuple[Piece, ...] = ()

    @property
    def depth(self) -> int:
        """Number of calls on the longest path."""
        return 1 + max(one.depth for one in self.parts) if self.parts else 0

    @property
    def begins(self) -> tuple[str, ...]:
        """The values that are known at first."""
        return tuple(value for one in self.parts for value in one.begins) if self.parts else (self.value,)

    @property
    def calls(self) -> dict[str, str]:
        """Calls with their results, in an order in which each follows its inputs."""
        made = {call: value for one in self.parts for call, value in one.calls.items()}
        return made | {self.call: self.value} if self.call else {}


def executed(tools: Tools, begins: Values, depth: int, random: Random, kind: object = None) -> Piece:
    """Draw a composition of this depth backwards from its last tool, whose output has a type (None: any); execute it.

    Raises:
        DataError: no tools follow each other so, or one of them has no result.
    """
    if depth == 0:
        return Piece(random.choice(list(begins[kind])))
    last = [one for one in tools.tools.values() if kind in (None, one.output) and _is_fed(tools, one, begins, depth)]
    if not last:
        raise DataError("no tools follow each other so", field="depth", value=depth)
    tool = random.choice(last)
    parts = tuple(executed(tools, begins, depth - 1, random, taken) for taken in tool.inputs.values())
    call, value = _made(tools, tool, [one.value for one in parts])
    if value is None:
        raise DataError("a tool has no result", field="begins", value=call, allowed="values that its function takes")
    return Piece(value, call, parts)


def _is_fed(tools: Tools, tool: Tool, begins: Values, depth: int) -> bool:
    """Return True if a tool can be the last of a composition of this depth."""
    if depth == 1:
        return set(tool.inputs.values()) <= set(begins)
    edges = [(first, name) for first, second, name in tools.edges() if second is tool]
    return {name for first, name in edges if _is_fed(tools, first, begins, depth - 1)} == set(tool.inputs)


def reached(tools: Tools, begins: Values, rounds: int) -> dict[str, str]:
    """Return all calls, with their results, that are possible in so many rounds from known values."""
    made: dict[str, str] = {}
    known = {kind: dict.fromkeys(values) for kind, values in begins.items()}
    for _ in range(rounds):
        before = {kind: list(values) for kind, values in known.items()}
        for tool in tools.tools.values():
            for of in product(*(before.get(kind, []) for kind in tool.inputs.values())):
                call, value = _made(tools, tool, of)
                if value is not None:
                    made[call] = value
                    known.setdefault(tool.output, {})[value] = None
    return made


def _made(tools: Tools, tool: Tool, of: Sequence[str]) -> tuple[str, str | None]:
    """Return a call with its result; None: the tool answers with an error."""
    call = str(Call(tool, tuple(of)))
    value = tools.answer(call)
    return call, None if value is None or value.startswith(ERROR) else value
