"""Arguments of the CUDA kernels: ctypes structures read from the very header that the kernels are compiled with."""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import ClassVar, Final

from tinsmith.ops.cuda.nvrtc import source

_NUMBERS: Final = {"i64": ctypes.c_longlong, "float": ctypes.c_float}


class Arguments(ctypes.Structure):
    """One kernel's arguments, passed by value."""

    _fields_: ClassVar = []


@cache
def layout(name: str) -> type[Arguments]:
    """Return the structure of this name in `native/cuda/args.h`."""
    text = re.sub(r"//.*", "", source("args.h").decode())
    found = re.search(rf"struct {name} \{{(.*?)\}};", text, re.S)
    assert found is not None, name
    fields: list[tuple[str, type[ctypes.c_void_p | ctypes.c_longlong | ctypes.c_float]]] = []
    for declared in filter(None, map(str.strip, found[1].split(";"))):
        kind, names = declared.rsplit("* ", 1) if "*" in declared else declared.split(" ", 1)
        of = ctypes.c_void_p if "*" in declared else _NUMBERS[kind]
        fields += [(each, of) for each in names.split(", ")]
    return type(name, (Arguments,), {"_fields_": fields})


def __getattr__(name: str) -> type[Arguments]:
    """Return a structure by its name, read when it is first asked for: CPUs ask for none."""
    if not name.endswith("Args"):
        raise AttributeError(name)
    return layout(name)
