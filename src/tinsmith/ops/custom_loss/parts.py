"""Parts of a tensor by index, slice, mask and position. Gradients return to their source."""

from __future__ import annotations

from types import EllipsisType
from typing import Any, cast

import numpy as np

from tinsmith.ops.custom_loss.arguments import axis, flag, items, number, refuse, tensor, truths, whole
from tinsmith.ops.custom_loss.encoded import Slice
from tinsmith.ops.custom_loss.limits import require_shape
from tinsmith.ops.custom_loss.tape import Array, Tape, Values
from tinsmith.ops.exact import Float64Array

_Index = int | slice | None | EllipsisType
_Basic = tuple[_Index, ...]


def getitem(tape: Tape, input: object, index: object, /) -> object:
    """Return a part of a tensor, or a member of a shape or pair."""
    if isinstance(input, tuple):
        return _member(cast("tuple[object, ...]", input), index)
    x = tensor(input)
    parts = list(cast("tuple[object, ...]", index)) if isinstance(index, tuple) else [index]
    arrays = [at for at, part in enumerate(parts) if isinstance(part, (Array, list))]
    if not arrays:
        basic = tuple(_basic(part) for part in parts)
        return _part(tape, x, basic)
    if len(parts) > 1:
        refuse("a tensor stands beside other indices", "one tensor alone, or gather")
    picked = parts[0]
    listed = [number(each) for each in items(picked)] if isinstance(picked, list) else None
    chosen = tensor(picked) if listed is None else tape.constant(listed)
    if chosen.value.dtype == np.bool_:
        return _masked(tape, x, chosen)
    return index_select(tape, x, 0, chosen)


def _member(values: tuple[object, ...], index: object) -> object:
    if isinstance(index, Slice):
        part = _basic(index)
        assert isinstance(part, slice)
        return values[part]
    at = whole(index)
    if not -len(values) <= at < len(values):
        refuse(f"there is no member {at} of {len(values)}", "a place that there is")
    return values[at]


def _basic(part: object) -> _Index:
    if part is None or part is ...:
        return cast("_Index", part)
    if isinstance(part, Slice):
        ends = [None if end is None else whole(end) for end in (part.start, part.stop, part.step)]
        if ends[2] is not None and ends[2] < 1:
            refuse("a slice runs backwards", "a step of at least 1, or flip")
        return slice(*ends)
    if isinstance(part, bool):
        refuse("a truth value is no place", "a number, a slice, None, ... or a tensor")
    return whole(part)


def _part(tape: Tape, x: Array, index: _Basic) -> Array:
    try:
        value = np.asarray(x.value[index])
    except IndexError:
        refuse(f"a tensor of shape {x.shape} has no such part", "places that there are")
    require_shape(value.shape)

    def back(grad: Float64Array) -> Float64Array:
        whole_grad = np.zeros(x.shape)
        whole_grad[index] = grad
        return whole_grad

    return tape.result(value, (x, back))


def _masked(tape: Tape, x: Array, mask: Array) -> Array:
    held = truths(mask)
    if not mask.shape or x.shape[: held.ndim] != held.shape:
        refuse(f"a mask of shape {mask.shape} for a tensor of shape {x.shape}", "the same first sizes")

    def back(grad: Float64Array) -> Float64Array:
        spread = np.zeros(x.shape)
        spread[held] = grad
        return spread

    return tape.result(x.value[held], (x, back))


def masked_select(tape: Tape, /, input: object, mask: object) -> Array:
    """Return the elements where a mask of the same shape holds, in order."""
    x, held = tensor(input), tensor(mask)
    if x.shape != held.shape:
        refuse(f"a mask of shape {held.shape} for shape {x.shape}", "the same shape")
    return x if not x.shape and bool(truths(held)) else _masked(tape, x, held)


def _places(index: object, size: int) -> Values:
    chosen = tensor(index)
    if chosen.value.dtype != np.int64:
        refuse(f"places are given as {chosen.value.dtype}", "whole numbers")
    places = chosen.value.astype(np.int64)
    if bool(((places < -size) | (places >= size)).any()):
        refuse("there is no such place", f"{-size} to {size - 1}")
    return np.where(places < 0, places + size, places)


def index_select(tape: Tape, /, input: object, dim: object, index: object) -> Array:
    """Return parts along a dimension by index; repeated parts add their gradients."""
    x, over = tensor(input), axis(dim, tensor(input).value.ndim)
    if not x.shape:
        refuse("a tensor without dimensions has no parts", "a tensor with dimensions")
    places = _places(index, x.shape[over])
    shape = (*x.shape[:over], *places.shape, *x.shape[over + 1 :])
    tape.room(shape)

    def back(grad: Float64Array) -> Float64Array:
        spread = np.zeros(x.shape)
        at: Any = (*(slice(None),) * over, places)
        np.add.at(spread, at, grad)  # one after another, in order
        return spread

    return tape.result(np.take(x.value, places, axis=over), (x, back))


def gather(tape: Tape, /, input: object, dim: object, index: object, *, sparse_grad: object = False) -> Array:
    """Return elements along a dimension by index."""
    x, over = tensor(input), axis(dim, tensor(input).value.ndim)
    if flag(sparse_grad):
        refuse("a gradient is not sparse here", "sparse_grad=False")
    places = _places(index, x.shape[over] if x.shape else 1)
    inside = places.ndim == x.value.ndim and all(
        mine <= other for at, (mine, other) in enumerate(zip(places.shape, x.shape, strict=False)) if at != over
    )
    if not inside or not x.shape:
        refuse(f"places of shape {places.shape} in shape {x.shape}", "as many dimensions, no larger")
    tape.room(places.shape)
    grid = list(np.ogrid[tuple(slice(size) for size in places.shape)])
    grid[over] = places
    at = tuple(grid)

    def back(grad: Float64Array) -> Float64Array:
        spread = np.zeros(x.shape)
        np.add.at(spread, at, grad)  # one after another, in order
        return spread

    return tape.result(x.value[at], (x, back))


def select(tape: Tape, /, input: object, dim: object, index: object) -> Array:
    """Return one part along a dimension."""
    x = tensor(input)
    over = axis(dim, x.value.ndim)
    return _part(tape, x, (*(slice(None),) * over, whole(index)))


def narrow(tape: Tape, /, input: object, dim: object, start: object, length: object) -> Array:
    """Return consecutive parts along a dimension."""
    x, first, count = tensor(input), whole(start), whole(length)
    over = axis(dim, x.value.ndim)
    if not (x.shape and 0 <= first <= first + count <= x.shape[over]):
        refuse(f"{count} parts from {first} on in shape {x.shape}", "parts that there are")
    return _part(tape, x, (*(slice(None),) * over, slice(first, first + count)))
