"""A measurement: a function whose arguments are its keys and that returns what measures; and how files are written."""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args, get_origin, get_type_hints

from tinsmith.lab.experiment.experiment import default_of, words_of
from tinsmith.lab.experiment.key_text import converted, shown_value
from tinsmith.lab.study.keys import StudyKey, StudyKeys
from tinsmith.types.errors import ConfigError
from tinsmith.types.waits import Say

Measure = Callable[[Say], Path]
"""Says what it takes, measures, writes files, and returns their folder; where that is asked for it only says."""
Measurement = Callable[..., Measure]
"""Checks its keyword arguments and returns what measures. `**more: Annotated[object, SETTINGS]` takes further keys: the
fields of a dataclass, or where some of them begin with `more_`, only those."""
_ARGUMENT: Final = re.compile(r"^    (\w+): (\S.*(?:\n {8,}\S.*)*)", re.MULTILINE)


def keys_of(measurement: Measurement) -> StudyKeys:
    """Return the keys of a measurement: its arguments, with their defaults and what its docstring says."""
    doc = inspect.getdoc(measurement) or ""
    described = {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(doc)}
    own: list[StudyKey] = []
    for each in inspect.signature(measurement).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            settings = _further(measurement, each.name)
            texts, names = words_of(settings), [key.name for key in own]
            further = [one for one in fields(settings) if one.name not in names]
            of_name = [one for one in further if one.name.startswith(f"{each.name}_")]
            own += [StudyKey(one.name, _shown(default_of(one)), texts.get(one.name, "")) for one in of_name or further]
        else:
            own.append(StudyKey(each.name, _shown(each.default), described.get(each.name, "")))
    _, _, more = doc.partition("\n\nArgs:")[0].partition("\n\n")
    return StudyKeys(own=tuple(own), more=" ".join(more.split()))


def asked(measurement: Measurement, given: Mapping[str, str]) -> Measure:
    """Read `key=value` texts, and return what measures."""
    keys_of(measurement).require(given)
    hints = get_type_hints(measurement, include_extras=True)
    for each in inspect.signature(measurement).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            hints = {**get_type_hints(_further(measurement, each.name)), **hints}
    return measurement(**{key: read(key, text, hints[key]) for key, text in given.items()})


def read(key: str, text: str, hint: object) -> object:
    """Return the value of a key, of the type that its argument has."""
    if isinstance(hint, types.UnionType):
        hint = next(one for one in get_args(hint) if one is not types.NoneType)
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        return tuple(read(key, part, kind) for part in text.split(","))
    return converted(key, text, hint)


def at_least(lowest: float, **values: float) -> None:
    """Check that values are not below a bound."""
    for key, value in values.items():
        if not (math.isfinite(value) and value >= lowest):
            raise ConfigError("this number is too small", field=key, value=value, allowed=f"{lowest:g} or more")


def _further(measurement: Measurement, name: str) -> type[Any]:
    """Return the dataclass whose fields are further keys."""
    hint = get_type_hints(measurement, include_extras=True)[name]
    assert get_origin(hint) is Annotated, "further keys are named by a dataclass"
    return get_args(hint)[1]


def _shown(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(map(str, cast(tuple[object, ...], default)))
    return "" if default is inspect.Parameter.empty else shown_value(default)
