"""Arguments of a graph in their wire encoding, which is closed: nothing else can be expressed.

Numbers, texts, None and lists stand for themselves. Everything else is an object of one key: {"ref": name} for another
node, {"tuple": [...]}, {"dict": {...}}, {"slice": [start, stop, step]}, {"ellipsis": true}, {"float": "inf"},
{"dtype": "float32"}, {"device": "cpu"}, {"layout": "strided"}, {"memory_format": "contiguous_format"}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Final, NoReturn, cast

from tinsmith.ops.custom_loss.limits import MAX_CONSTANTS, MAX_DEPTH, MAX_TEXT
from tinsmith.types.errors import InputError

_INT64: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Ref:
    """Reference to another node's result."""

    name: str


@dataclass(frozen=True, slots=True)
class DType:
    """Type of torch's, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Device:
    """Device of torch's, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of torch's, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """Memory format, which changes no value."""

    name: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Part of a dimension; each end is a number, a Ref or None."""

    start: object
    stop: object
    step: object


_NAMED: Final = {"ref": Ref, "dtype": DType, "device": Device, "layout": Layout, "memory_format": MemoryFormat}


@dataclass(slots=True)
class Decoder:
    """Decoder of one graph's arguments, with a count of their elements."""

    left: int = MAX_CONSTANTS
    refs: list[str] = field(default_factory=list[str])
    """Names of the nodes referenced since this was last cleared."""

    def read(self, sent: object, depth: int = 0) -> object:
        """Decode an argument.

        Raises:
            InputError: it is no such thing, or there is too much of it.
        """
        self.left -= 1
        if self.left < 0:
            _refuse("the graph's arguments hold too much", f"{MAX_CONSTANTS} values in all")
        if depth > MAX_DEPTH:
            _refuse("an argument is nested too deep", f"at most {MAX_DEPTH} levels")
        match sent:
            case None | bool() | EllipsisType():
                return sent
            case int():
                if not -_INT64 <= sent < _INT64:
                    _refuse("a whole number is too large", "64 bits")
                return sent
            case float():
                if not math.isfinite(sent):
                    _refuse(f"an argument is {sent}", 'finite numbers, {"float": "inf"}')
                return sent
            case str():
                if len(sent) > MAX_TEXT:
                    _refuse("a text is too long", f"at most {MAX_TEXT} characters")
                return sent
            case list():
                return [self.read(each, depth + 1) for each in cast("list[object]", sent)]
            case dict():
                return self._one_key(cast("dict[str, object]", sent), depth + 1)
            case _:
                _refuse(f"an argument is a {type(sent).__name__}", "what torch.fx records")

    def _one_key(self, sent: Mapping[str, object], depth: int) -> object:
        if len(sent) != 1:
            _refuse(f"an object has {len(sent)} keys", 'one of {"ref": ...}, {"tuple": ...}, ...')
        ((key, value),) = sent.items()
        match key, value:
            case (("ref" | "dtype" | "device" | "layout" | "memory_format"), str()) if value:
                name = str(self.read(value, depth))
                if key == "ref":
                    self.refs.append(name)
                return _NAMED[key](name)
            case "tuple", list():
                return tuple(self.read(each, depth) for each in cast("list[object]", value))
            case "dict", dict():
                return {
                    str(self.read(name, depth)): self.read(each, depth)
                    for name, each in cast("dict[str, object]", value).items()
                }
            case "slice", list() if len(cast("Sequence[object]", value)) == 3:
                return Slice(*(self.read(each, depth) for each in cast("list[object]", value)))
            case "ellipsis", True:
                return ...
            case "float", "inf":
                return math.inf
            case "float", "-inf":
                return -math.inf
            case "float", "nan":
                _refuse("an argument is NaN", "numbers, inf and -inf")
            case _:
                _refuse(
                    f"an object with the key {key[:MAX_TEXT]!r} is not understood",
                    "ref, tuple, dict, slice, ellipsis, float, dtype, device, layout, memory_format",
                )


def _refuse(what: str, allowed: str) -> NoReturn:
    raise InputError(what, allowed=allowed)
