"""Pieces of the graph that a task's tools make, executed before a task is written: what came out is its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

from tinsmith.lab.user_task.tools import Tool, Tools
from tinsmith.types.errors import DataError

Values = Mapping[Any, Iterable[str]]
"""By type."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A value that is known at first, or what a call of a tool brought with the values of the pieces in `parts`."""

    value: str
    call: str = ""
    parts: tuple[Piece, ...] = ()

    @property
    def depth(self) -> int:
        """Calls on the longest way through it."""
        return 1 + max(one.depth for one in self.parts) if self.parts else 0

    @property
    def begins(self) -> tuple[str, ...]:
        """The values that are known at first."""
        return tuple(value for one in self.parts for value in one.begins) if self.parts else (self.value,)

    @property
    def calls(self) -> dict[str, str]:
        """Its calls in order, each after those that feed it, with what they brought."""
        made = {call: value for one in self.parts for call, value in one.calls.items()}
        return made | {self.call: self.value} if self.call else {}


def executed(tools: Tools, begins: Values, depth: int, random: Random, kind: object = None) -> Piece:
    """Draw a piece of this depth backwards from its last tool, whose output is of a type (None: any), and execute it.

    Raises:
        DataError: no tools follow each other so.
    """
    if depth == 0:
        return Piece(random.choice(list(begins[kind])))
    last = [one for one in tools.tools.values() if kind in (None, one.output) and _is_fed(tools, one, begins, depth)]
    if not last:
        raise DataError("no tools follow each other so", field="depth", value=depth)
    tool = random.choice(last)
    parts = tuple(executed(tools, begins, depth - 1, random, taken) for taken in tool.inputs.values())
    call, value = _made(tools, tool, [one.value for one in parts])
    return Piece(value, call, parts)


def _is_fed(tools: Tools, tool: Tool, begins: Values, depth: int) -> bool:
    """Return True if a tool can be the last one of a piece of this depth."""
    if depth == 1:
        return set(tool.inputs.values()) <= set(begins)
    edges = [(first, name) for first, second, name in tools.edges() if second is tool]
    return {name for first, name in edges if _is_fed(tools, first, begins, depth - 1)} == set(tool.inputs)


def reached(tools: Tools, begins: Values, rounds: int) -> dict[str, str]:
    """Return every call, with what it brings, that can be made in so many rounds by one who knows these values."""
    made: dict[str, str] = {}
    known = {kind: dict.fromkeys(values) for kind, values in begins.items()}
    for _ in range(rounds):
        before = {kind: list(values) for kind, values in known.items()}
        for tool in tools.tools.values():
            for of in product(*(before.get(kind, []) for kind in tool.inputs.values())):
                call, made[call] = _made(tools, tool, of)
                known.setdefault(tool.output, {})[made[call]] = None
    return made


def _made(tools: Tools, tool: Tool, of: Sequence[str]) -> tuple[str, str]:
    call = f"{tool.name}({', '.join(of)})"
    return call, str(tools.answer(call))
