"""CUDA kernels by name, with their arguments, parsed from the sources that they are compiled from."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from typing import ClassVar, Final, NamedTuple

from torch import Tensor

from tinsmith.ops.cuda.nvrtc import PROGRAMS, source

Value = Tensor | float | None
_NUMBERS: Final = {"i64": ctypes.c_longlong, "float": ctypes.c_float}
_SHAPES: Final = {"EACH": (256, 256), "LANES": (128, 8)}
"""Threads per block, and elements or rows per block, of TS_EACH and TS_LANES (native/cuda/grid.cuh)."""


class Arguments(ctypes.Structure):
    """Arguments of one kernel, passed by value."""

    _fields_: ClassVar = []


class Kernel(NamedTuple):
    """Kernel, the program that contains it, and the layout of its arguments."""

    name: str
    program: str
    layout: type[Arguments]
    threads: int
    per_block: int
    """Elements or rows per block, if one count determines the grid."""

    def arguments(self, *values: Value) -> Arguments:
        """Fill the fields in order: a tensor gives its address, followed by its strides."""
        left, filled, strides = iter(values), list[float | None](), tuple[int, ...]()
        for name, *_ in self.layout._fields_:
            if name.endswith(("_rs", "_cs")):
                filled.append(strides[name.endswith("_cs")])
            elif name != "pad":
                value = next(left)
                strides = value.stride() if isinstance(value, Tensor) and value.ndim == 2 else (0, 0)
                filled.append(value.data_ptr() if isinstance(value, Tensor) else value)
        return self.layout(*filled)


@cache
def layouts() -> Mapping[str, type[Arguments]]:
    """Return the structures of `native/cuda/args.h`."""
    structures: dict[str, type[Arguments]] = {}
    for name, body in re.findall(r"struct (\w+Args) \{(.*?)\};", re.sub(r"//.*", "", source("args.h").decode()), re.S):
        fields: list[tuple[str, type[ctypes.c_void_p | ctypes.c_longlong | ctypes.c_float]]] = []
        for declared in filter(None, map(str.strip, body.split(";"))):
            kind, names = declared.rsplit("* ", 1) if "*" in declared else declared.split(" ", 1)
            of = ctypes.c_void_p if "*" in declared else _NUMBERS[kind]
            fields += [(each, of) for each in names.split(", ")]
        structures[name] = type(name, (Arguments,), {"_fields_": fields})
    return structures


@cache
def kernels() -> Mapping[str, Kernel]:
    """Return every kernel; parsed on first use, and so never on CPUs."""
    return {
        name: Kernel(name, program, layouts()[of], *_SHAPES.get(how, (int(threads or 0), 1)))
        for program in PROGRAMS
        for how, name, of, threads in re.findall(
            r"^TS_(KERNEL|EACH|LANES)\((\w+), (\w+)(?:, (\d+))?", source(f"{program}.cu").decode(), re.M
        )
    }
