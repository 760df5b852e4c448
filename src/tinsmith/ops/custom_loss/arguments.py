"""Readers of an operation's arguments: tensors, numbers, dimensions, shapes, types; errors list what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.custom_loss.encoded import Device, DType, Layout
from tinsmith.ops.custom_loss.tape import Array, Tape
from tinsmith.ops.exact import Float64Array
from tinsmith.types.errors import InputError

Number = int | float | bool
Axes = tuple[int, ...]

_INT64: Final = 1 << 63
_REAL: Final = np.dtype(np.float64)
_WHOLE: Final = np.dtype(np.int64)
_TRUTH: Final = np.dtype(np.bool_)
_KINDS: Final = {
    "float32": _REAL,
    "float": _REAL,
    "float64": _REAL,
    "double": _REAL,
    "int64": _WHOLE,
    "long": _WHOLE,
    "int32": _WHOLE,
    "int": _WHOLE,
    "bool": _TRUTH,
}
"""Torch's names of types, and the type that represents each here."""


def refuse(what: str, allowed: str, fix: str | None = None) -> NoReturn:
    """Raise an InputError; the evaluator of the graph adds the node."""
    raise InputError(what, allowed=allowed, fix=fix)


def shown(value: object) -> str:
    """Return a short description of an argument."""
    if isinstance(value, Array):
        return f"a tensor of shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def array(tape: Tape, value: object) -> Array:
    """Return a tensor unchanged, and a number as a tensor without dimensions."""
    if isinstance(value, Array):
        return value
    if isinstance(value, (bool, int, float)):
        return tape.constant(number(value))
    refuse(f"{shown(value)} is no tensor", "a tensor or a number")


def tensor(value: object) -> Array:
    """Return a tensor."""
    if isinstance(value, Array):
        return value
    refuse(f"{shown(value)} is no tensor", "a tensor")


def floats(value: Array) -> Float64Array:
    """Return the values in float64."""
    return value.value.astype(np.float64, copy=False)


def real(tape: Tape, value: object) -> Array:
    """Return a tensor of real numbers; integers and booleans are converted."""
    given = array(tape, value)
    return given if given.is_float else tape.constant(floats(given))


def truths(value: object) -> NDArray[np.bool_]:
    """Return the values of a boolean tensor."""
    given = tensor(value)
    if given.value.dtype != np.bool_:
        refuse(f"a condition holds {given.value.dtype}", "a tensor of truth values, such as x != 0")
    return given.value.astype(np.bool_, copy=False)


def number(value: object) -> Number:
    """Return a Python number."""
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        refuse("a whole number is too large", "64 bits")
    if isinstance(value, (bool, int, float)):
        return value
    refuse(f"{shown(value)} is no number", "a number that is not a tensor")


def whole(value: object) -> int:
    """Return a Python integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    refuse(f"{shown(value)} is no whole number", "a whole number that is not a tensor")


def flag(value: object) -> bool:
    """Return a Python boolean."""
    if isinstance(value, bool):
        return value
    refuse(f"{shown(value)} is neither true nor false", "True or False")


def items(value: object) -> tuple[object, ...]:
    """Return the elements of a list or tuple."""
    if isinstance(value, (list, tuple)):
        return tuple(cast("Sequence[object]", value))
    refuse(f"{shown(value)} is no list", "a list or a tuple")


def sizes(values: tuple[object, ...]) -> tuple[int, ...]:
    """Return a shape, passed as one list or as several numbers."""
    listed = items(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple)) else values
    return tuple(whole(size) for size in listed)


def axis(value: object, dimensions: int) -> int:
    """Return a dimension counted from 0; a tensor without dimensions has dimension 0, as in torch."""
    given, room = whole(value), max(dimensions, 1)
    if not -room <= given < room:
        refuse(f"there is no dimension {given}", f"{-room} to {room - 1}")
    return given % room


def axes(value: object, dimensions: int) -> Axes:
    """Return the dimensions to reduce: one, several, or for None (or an empty list) all."""
    if value is None or value in ((), []):
        return tuple(range(dimensions))
    listed = items(value) if isinstance(value, (list, tuple)) else (value,)
    found = tuple(axis(each, dimensions) for each in listed)
    if len(set(found)) != len(found):
        refuse(f"a dimension is named twice in {shown(value)}", "each dimension once")
    return found if dimensions else ()


def kind(value: object) -> np.dtype[np.generic]:
    """Return the type that represents one of torch's."""
    if isinstance(value, np.dtype):
        return cast("np.dtype[np.generic]", value)
    name = value.name if isinstance(value, DType) else shown(value)
    if isinstance(value, DType) and name in _KINDS:
        return cast("np.dtype[np.generic]", _KINDS[name])
    refuse(f"the type {name} is not computed here", "float32 and float64 (both are float64 here), int64, int32, bool")


def converted(source: Array, dtype: np.dtype[np.generic], tape: Tape) -> Array:
    """Convert a tensor to another type; the gradient flows through if both are real."""
    values = source.value
    if values.dtype == dtype:
        return source
    if dtype == _WHOLE and source.is_float:
        cut = np.trunc(floats(source))
        if not bool((np.abs(cut) < 2.0**63).all()):
            refuse("a number that is not finite, or is too large, has no whole part", "|x| < 2**63")
        return tape.constant(cut.astype(np.int64))
    return tape.constant(values != 0 if dtype == _TRUTH else values.astype(dtype))


def require_placed(device: object, layout: object = None) -> None:
    """Reject a device or layout that tensors of a loss do not have."""
    if device is not None and not isinstance(device, Device):
        refuse(f"{shown(device)} is no device", "the device of another tensor, or cpu")
    if isinstance(device, Device) and device.name != "cpu":
        refuse(f"a loss is not computed on {device.name}", "cpu")
    if layout is not None and layout != Layout("strided"):
        refuse(f"{shown(layout)} is no layout of a tensor here", "strided")
