"""Creation of tensors: constants, ranges and conversions; and the attributes of types, shapes and sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinsmith.ops.custom_loss.arguments import (
    axis,
    converted,
    flag,
    items,
    kind,
    number,
    refuse,
    require_placed,
    shown,
    sizes,
    tensor,
)
from tinsmith.ops.custom_loss.elementwise import Operation
from tinsmith.ops.custom_loss.encoded import Device, DType, MemoryFormat
from tinsmith.ops.custom_loss.limits import MAX_ELEMENTS
from tinsmith.ops.custom_loss.tape import Array, Tape

_REAL = np.dtype(np.float64)


def _given(dtype: object, other: object) -> object:
    return other if dtype is None else dtype


def _filled(tape: Tape, shape: Sequence[int], value: object, dtype: object, device: object, layout: object) -> Array:
    require_placed(device, layout)
    tape.room(shape)
    held = converted(tape.constant(number(value)), kind(dtype), tape)
    return tape.constant(np.broadcast_to(held.value, tuple(shape)))


def _require_no_gradient(requires_grad: object, pin_memory: object = False) -> None:
    if flag(requires_grad) or flag(pin_memory):
        refuse("a gradient is wanted of a constant", "requires_grad=False, pin_memory=False")


def of_shape(fill: float) -> Operation:
    """Create a constant tensor, as torch.zeros and torch.ones do."""

    def operation(
        tape: Tape, /, *size: object, dtype: object = None, device: object = None, layout: object = None,
        requires_grad: object = False, pin_memory: object = False,
    ) -> Array:  # fmt: skip
        _require_no_gradient(requires_grad, pin_memory)
        return _filled(tape, sizes(size), fill, _given(dtype, _REAL), device, layout)

    return operation


def full(
    tape: Tape, /, size: object, fill_value: object, *, dtype: object = None, device: object = None,
    layout: object = None, requires_grad: object = False,
) -> Array:  # fmt: skip
    """Fill a shape with one number."""
    _require_no_gradient(requires_grad)
    wanted = _given(dtype, np.asarray(number(fill_value)).dtype)
    return _filled(tape, sizes((size,)), fill_value, wanted, device, layout)


def _like(tape: Tape, input: object, fill: object, dtype: object, device: object, layout: object) -> Array:
    x = tensor(input)
    return _filled(tape, x.shape, fill, _given(dtype, x.value.dtype), device, layout)


def like(fill: float) -> Operation:
    """Create a constant tensor of another's shape, as torch.zeros_like and torch.ones_like do."""

    def operation(
        tape: Tape, /, input: object, *, dtype: object = None, device: object = None,
        layout: object = None, memory_format: object = None, requires_grad: object = False,
    ) -> Array:  # fmt: skip
        del memory_format  # values have no order in memory here
        _require_no_gradient(requires_grad)
        return _like(tape, input, fill, dtype, device, layout)

    return operation


def full_like(
    tape: Tape, /, input: object, fill_value: object, *, dtype: object = None, device: object = None,
    layout: object = None, memory_format: object = None, requires_grad: object = False,
) -> Array:  # fmt: skip
    """Fill a tensor's shape with one number, in its type."""
    del memory_format  # values have no order in memory here
    _require_no_gradient(requires_grad)
    return _like(tape, input, fill_value, dtype, device, layout)


def new_of_shape(fill: float) -> Operation:
    """Create a constant tensor in x's type, as x.new_zeros and x.new_ones do."""

    def operation(
        tape: Tape, /, input: object, *size: object, dtype: object = None, device: object = None,
        layout: object = None, requires_grad: object = False,
    ) -> Array:  # fmt: skip
        _require_no_gradient(requires_grad)
        wanted = _given(dtype, tensor(input).value.dtype)
        return _filled(tape, sizes(size), fill, wanted, device, layout)

    return operation


def new_full(
    tape: Tape, /, input: object, size: object, fill_value: object, *, dtype: object = None,
    device: object = None, layout: object = None, requires_grad: object = False,
) -> Array:  # fmt: skip
    """Fill a shape with one number, in x's type."""
    _require_no_gradient(requires_grad)
    wanted = _given(dtype, tensor(input).value.dtype)
    return _filled(tape, sizes((size,)), fill_value, wanted, device, layout)


def new_tensor(
    tape: Tape, /, input: object, data: object, *, dtype: object = None, device: object = None,
    requires_grad: object = False,
) -> Array:  # fmt: skip
    """Create a tensor from a number or a list of numbers."""
    tensor(input)
    _require_no_gradient(requires_grad)
    require_placed(device)
    listed = [number(each) for each in items(data)] if isinstance(data, (list, tuple)) else number(data)
    made = tape.constant(np.asarray(listed))
    return made if dtype is None else converted(made, kind(dtype), tape)


def arange(
    tape: Tape, /, *ends: object, start: object = None, end: object = None, step: object = None,
    dtype: object = None, device: object = None, layout: object = None, requires_grad: object = False,
) -> Array:  # fmt: skip
    """Return numbers from start (0) to before end, by step (1); each is start + i step."""
    require_placed(device, layout)
    _require_no_gradient(requires_grad)
    given = [start, end, step]
    for at, value in zip({1: (1,), 2: (0, 1), 3: (0, 1, 2)}.get(len(ends), ()), ends, strict=False):
        if given[at] is not None:
            refuse("an end of arange is given twice", "each once")
        given[at] = value
    if given[1] is None or len(ends) > 3:
        refuse("arange has no end", "arange(end), arange(start, end), arange(start, end, step)")
    first, last, by = (number(0 if v is None and i == 0 else 1 if v is None else v) for i, v in enumerate(given))
    if not by > 0 or not np.isfinite(np.array([first, last, by], np.float64)).all():
        refuse("arange counts upwards between finite numbers", "step > 0")
    count = int(np.clip(np.ceil((last - first) / by), 0, MAX_ELEMENTS + 1))
    tape.room((count,))
    counted = tape.constant(first + np.arange(count) * by)
    return counted if dtype is None else converted(counted, kind(dtype), tape)


def to(
    tape: Tape, /, input: object, *targets: object, dtype: object = None, device: object = None,
    other: object = None, non_blocking: object = False, copy: object = False, memory_format: object = None,
) -> Array:  # fmt: skip
    """Convert to another type: x.to(dtype), x.to(y), x.to(device)."""
    flag(non_blocking)
    flag(copy)
    if memory_format is not None and not isinstance(memory_format, MemoryFormat):
        refuse(f"{shown(memory_format)} is no order in memory", "a memory format")
    dtypes = [] if dtype is None else [dtype]
    places = [device]
    for target in (*targets, *(() if other is None else (other,))):
        match target:
            case Array():
                dtypes.append(target.value.dtype)
            case DType() | np.dtype():
                dtypes.append(target)
            case Device() | None:
                places.append(target)
            case str():
                places.append(Device(target))
            case bool():
                pass
            case _:
                refuse(f"{shown(target)} is neither type nor device", "a dtype, a tensor, a device")
    for place in places:
        require_placed(Device(place) if isinstance(place, str) else place)
    if len(dtypes) > 1:
        refuse("a type is given twice", "one type")
    return converted(tensor(input), kind(dtypes[0]), tape) if dtypes else tensor(input)


def type_as(tape: Tape, /, input: object, other: object) -> Array:
    """Convert to another tensor's type."""
    return converted(tensor(input), tensor(other).value.dtype, tape)


def as_kind(name: str) -> Operation:
    """Convert as x.float(), x.long() and the like."""

    def operation(tape: Tape, /, input: object, memory_format: object = None) -> Array:
        del memory_format  # values have no order in memory here
        return converted(tensor(input), kind(DType(name)), tape)

    return operation


def size(tape: Tape, /, input: object, dim: object = None) -> object:
    """Return the shape, or the size of one dimension."""
    del tape
    shape = tensor(input).shape
    if dim is None:
        return shape
    at = axis(dim, len(shape))
    return shape[at] if shape else refuse("there is no dimension", "a tensor with dimensions")


def numel(tape: Tape, /, input: object) -> int:
    """Return the number of elements."""
    del tape
    return tensor(input).value.size


def dimensions(tape: Tape, /, input: object) -> int:
    """Return the number of dimensions."""
    del tape
    return tensor(input).value.ndim


ATTRIBUTES: dict[str, Callable[[Tape, Array], object]] = {
    "shape": lambda _, x: x.shape,
    "ndim": lambda _, x: x.value.ndim,
    "dtype": lambda _, x: x.value.dtype,
    "device": lambda _, _x: Device("cpu"),
}
"""Tensor attributes that getattr can read, except those that `operations` adds."""
