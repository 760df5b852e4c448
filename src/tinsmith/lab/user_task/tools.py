"""Tools of a task: typed Python functions that replies call by name, and their calls from a record in place of them."""

from __future__ import annotations

import csv
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NewType, get_type_hints

from tinsmith.types.errors import ConfigError, DataError, TaskError

_CALL: Final = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)
_PLAIN: Final[Mapping[object, Callable[[str], object]]] = {
    str: str,
    int: int,
    float: float,
    bool: lambda text: {"true": True, "false": False}[text.lower()],
}
"""Readers of arguments, by type."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One function, and the types of what it takes and returns."""

    name: str
    function: Callable[..., object]
    inputs: Mapping[str, object]
    """Types by parameter."""
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
        """Return the call in one spelling: what it is recorded by."""
        return f"{self.tool.name}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of a task, by name; make it with `tools_of`."""

    tools: Mapping[str, Tool]
    record: Mapping[str, str] | None = None
    """Results by call, in place of the functions; None: these are run."""

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
        """Return the call that a reply is, what is wrong with it, or None: the reply calls nothing."""
        found = _CALL.fullmatch(text)
        if found is None:
            return None
        name, inside = found.groups()
        tool = self.tools.get(name)
        if tool is None:
            return f"error: no tool {name}; there are {', '.join(self.tools)}"
        given = next(csv.reader([inside], skipinitialspace=True), [])
        try:
            kinds = [_PLAIN[_plain(kind)] for kind in tool.inputs.values()]
            return Call(tool, tuple(kind(one.strip(" '\"")) for kind, one in zip(kinds, given, strict=True)))
        except (ValueError, KeyError):
            return f"error: it is {tool.signature}"

    def answer(self, text: str) -> str | None:
        """Return what a reply brings; None: it calls no tool.

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
                return f"error: {error.args[0] if error.args else type(error).__name__}"
        if str(call) not in self.record:
            raise TaskError(f"this call is not in the record: {call}")
        return self.record[str(call)]

    def replayed(self, record: Mapping[str, str] | Path | str) -> Tools:
        """Return the same tools with results from a record: calls with their results, a run's folder, or a JSONL file.

        A call that is not in it fails its rollout, which then has no reward.
        """
        return replace(self, record=record if isinstance(record, Mapping) else self.recorded(Path(record)))

    def missed(self, calls: Iterable[str]) -> list[str]:
        """Return the calls that are not in the record."""
        return [
            one for one in calls if isinstance(call := self.read(one), Call) and str(call) not in (self.record or ())
        ]

    def recorded(self, place: Path) -> dict[str, str]:
        """Read the calls of a run's folder or of a file with its rollouts, and what they brought.

        Raises:
            DataError: there are none, or a call brought two results, so that it cannot be replayed.
        """
        file = place / "rollouts.jsonl" if place.is_dir() else place
        if not file.is_file():
            raise DataError("there is no such file", field="record", value=str(file))
        found: dict[str, str] = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            turns = json.loads(line).get("turns", ())
            for said, heard in zip(turns[::2], turns[1::2], strict=False):
                call = self.read(said["text"])
                if isinstance(call, Call) and found.setdefault(str(call), heard["text"]) != heard["text"]:
                    what = "a call brought two results, and cannot be replayed"
                    raise DataError(what, field="record", value=f"{call}: {found[str(call)]!r}, {heard['text']!r}")
        return found


def tools_of(*functions: Callable[..., object]) -> Tools:
    """Return functions as tools; each names the type of every parameter and of what it returns.

    Types are str, int, float, bool, or a `NewType` of one of them, which says what feeds what.

    Raises:
        ConfigError: a function has no name, types or parameters of this kind, or two have one name.
    """
    found: dict[str, Tool] = {}
    for function in functions:
        name = getattr(function, "__name__", "")
        kinds = get_type_hints(function) if name.isidentifier() else {}
        parameters = inspect.signature(function).parameters
        if {*parameters, "return"} != set(kinds) or any(_plain(kinds[one]) not in _PLAIN for one in parameters):
            allowed = "a function that names its types: str, int, float, bool, or a NewType of one of them"
            raise ConfigError("this cannot be called by a model", field="tools", value=name, allowed=allowed)
        if name in found:
            raise ConfigError("two tools have one name", field="tools", value=name)
        found[name] = Tool(name, function, {one: kinds[one] for one in parameters}, kinds["return"])
    return Tools(found)


def _plain(kind: object) -> object:
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    return kind


def _name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))
