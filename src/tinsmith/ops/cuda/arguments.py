"""Arguments of the CUDA kernels: ctypes structures read from the very header that the kernels are compiled with."""

from __future__ import annotations

import ctypes
import re
from typing import ClassVar, Final

from tinsmith.ops.cuda.nvrtc import source

_NUMBERS: Final = {"i64": ctypes.c_longlong, "float": ctypes.c_float}


class Arguments(ctypes.Structure):
    """One kernel's arguments, passed by value."""

    _fields_: ClassVar = []


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


GemmArgs, ColumnArgs, EmbedArgs = map(layout, ("GemmArgs", "ColumnArgs", "EmbedArgs"))
NormArgs, NormBackArgs, RotateArgs = map(layout, ("NormArgs", "NormBackArgs", "RotateArgs"))
GateArgs, ScaleArgs, StoreArgs = map(layout, ("GateArgs", "ScaleArgs", "StoreArgs"))
AttentionArgs, AttentionBackArgs = map(layout, ("AttentionArgs", "AttentionBackArgs"))
StatsArgs, ChooseArgs, RankedArgs = map(layout, ("StatsArgs", "ChooseArgs", "RankedArgs"))
GatherArgs, LogprobBackArgs, RouteArgs = map(layout, ("GatherArgs", "LogprobBackArgs", "RouteArgs"))
DotsArgs, AdamArgs, SquaresArgs = map(layout, ("DotsArgs", "AdamArgs", "SquaresArgs"))
FiniteArgs, Nf4Args, QuotientArgs = map(layout, ("FiniteArgs", "Nf4Args", "QuotientArgs"))
