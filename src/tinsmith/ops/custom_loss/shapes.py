"""Operations that only move elements: shapes and orders. Gradients return to their source."""

from __future__ import annotations

import math

import numpy as np

from tinsmith.ops.custom_loss.arguments import array, axes, axis, items, real, refuse, shown, sizes, tensor
from tinsmith.ops.custom_loss.limits import require_shape
from tinsmith.ops.custom_loss.tape import Array, Back, Tape
from tinsmith.ops.exact import Float64Array


def expanded(values: Float64Array, shape: tuple[int, ...]) -> Float64Array:
    """Return values broadcast to a shape, without a copy."""
    return np.broadcast_to(values, shape)


def _reshaped(tape: Tape, x: Array, shape: tuple[int, ...]) -> Array:
    return tape.result(x.value.reshape(shape), (x, lambda grad: grad.reshape(x.shape)))


def reshape(tape: Tape, /, input: object, *shape: object, **named: object) -> Array:
    """Reshape; one size may be -1."""
    x = tensor(input)
    if named.keys() - {"shape", "size"} or len(named) + len(shape[:1]) != 1:
        refuse("a shape is given once", "reshape(2, 3), reshape((2, 3)), shape=(2, 3)")
    wanted = sizes(shape or tuple(named.values()))
    known = math.prod(size for size in wanted if size != -1)
    if wanted.count(-1) == 1 and known > 0 and x.value.size % known == 0:
        wanted = tuple(x.value.size // known if size == -1 else size for size in wanted)
    if any(size < 0 for size in wanted) or math.prod(wanted) != x.value.size:
        refuse(f"{x.value.size} elements have no shape {wanted}", "a shape of as many elements")
    require_shape(wanted)
    return _reshaped(tape, x, wanted)


def reshape_as(tape: Tape, /, input: object, other: object) -> Array:
    """Reshape to another tensor's shape."""
    return reshape(tape, input, list(tensor(other).shape))


def flatten(tape: Tape, /, input: object, start_dim: object = 0, end_dim: object = -1) -> Array:
    """Merge several dimensions."""
    x = tensor(input)
    first, last = axis(start_dim, x.value.ndim), axis(end_dim, x.value.ndim)
    if first > last:
        refuse("the first dimension lies behind the last", "start_dim <= end_dim")
    middle = math.prod(x.shape[first : last + 1])
    return _reshaped(tape, x, (*x.shape[:first], middle, *x.shape[last + 1 :]))


def ravel(tape: Tape, /, input: object) -> Array:
    """Merge all dimensions."""
    return flatten(tape, input)


def unsqueeze(tape: Tape, /, input: object, dim: object) -> Array:
    """Add a dimension of size 1."""
    x = tensor(input)
    at = axis(dim, x.value.ndim + 1)
    shape = (*x.shape[:at], 1, *x.shape[at:])
    require_shape(shape)
    return _reshaped(tape, x, shape)


def squeeze(tape: Tape, /, input: object, dim: object = None) -> Array:
    """Remove dimensions of size 1: all, or those named."""
    x = tensor(input)
    named = axes(dim, x.value.ndim)
    shape = tuple(size for at, size in enumerate(x.shape) if size != 1 or at not in named)
    return _reshaped(tape, x, shape)


def expand(tape: Tape, /, input: object, *size: object) -> Array:
    """Repeat dimensions of size 1; -1 keeps a size."""
    x, wanted = tensor(input), sizes(size)
    added = len(wanted) - x.value.ndim
    shape = tuple(x.shape[at - added] if each == -1 and at >= added else each for at, each in enumerate(wanted))
    tape.room(shape)
    fits = added >= 0 and all(mine in (1, each) for mine, each in zip(x.shape, shape[added:], strict=True))
    if not fits:
        refuse(f"shape {x.shape} does not expand to {wanted}", "sizes of 1 become larger")
    return tape.result(np.broadcast_to(x.value, shape), (x, lambda grad: grad))


def expand_as(tape: Tape, /, input: object, other: object) -> Array:
    """Expand to another tensor's shape."""
    return expand(tape, input, list(tensor(other).shape))


def repeat(tape: Tape, /, input: object, *repeats: object) -> Array:
    """Repeat the tensor along each dimension."""
    x, times = tensor(input), sizes(repeats)
    if len(times) < x.value.ndim:
        refuse("repeat has fewer numbers than dimensions", "one number per dimension")
    inner = (1,) * (len(times) - x.value.ndim) + x.shape
    require_shape(times)
    tape.room(tuple(a * b for a, b in zip(times, inner, strict=True)))
    split = tuple(each for both in zip(times, inner, strict=True) for each in both)
    ones = tuple(each for size in inner for each in (1, size))
    wide = np.broadcast_to(x.value.reshape(ones), split)
    value = wide.reshape(tuple(a * b for a, b in zip(times, inner, strict=True)))
    spread = tape.result(wide, (_reshaped(tape, x, ones), lambda grad: grad))
    return tape.result(value, (spread, lambda grad: grad.reshape(split)))


def permute(tape: Tape, /, input: object, *dims: object) -> Array:
    """Reorder the dimensions."""
    x = tensor(input)
    order = tuple(axis(each, x.value.ndim) for each in sizes(dims))
    if sorted(order) != list(range(x.value.ndim)):
        refuse(f"{order} is no order of {x.value.ndim} dimensions", "each dimension once")
    back = tuple(int(each) for each in np.argsort(np.array(order, np.int64)))
    return tape.result(x.value.transpose(order), (x, lambda grad: grad.transpose(back)))


def transpose(tape: Tape, /, input: object, dim0: object, dim1: object) -> Array:
    """Exchange two dimensions."""
    x = tensor(input)
    one, two = axis(dim0, x.value.ndim), axis(dim1, x.value.ndim)
    if not x.shape:
        return x
    return tape.result(np.swapaxes(x.value, one, two), (x, lambda grad: np.swapaxes(grad, one, two)))


def swapaxes(tape: Tape, /, input: object, axis0: object, axis1: object) -> Array:
    """Exchange two dimensions, under numpy's name."""
    return transpose(tape, input, axis0, axis1)


def transposed(tape: Tape, /, input: object) -> Array:
    """Transpose a matrix."""
    x = tensor(input)
    if x.value.ndim > 2:
        refuse("only a matrix is transposed like this", "at most 2 dimensions, or permute")
    return x if x.value.ndim < 2 else transpose(tape, x, 0, 1)


def flip(tape: Tape, /, input: object, *dims: object) -> Array:
    """Reverse the order along some dimensions."""
    x = tensor(input)
    named = sizes(dims)
    over = axes(list(named), x.value.ndim) if named else ()
    if not x.shape:
        return x
    return tape.result(np.flip(x.value, over), (x, lambda grad: np.flip(grad, over)))


def roll(tape: Tape, /, input: object, shifts: object, dims: object = None) -> Array:
    """Rotate elements along a dimension: those that leave at one end enter at the other."""
    x, by = tensor(input), sizes((shifts,))
    if len(by) != 1 or (dims is not None and len(sizes((dims,))) != 1):
        refuse("roll moves along one dimension", "one number and one dimension")
    over = None if dims is None else axis(sizes((dims,))[0], x.value.ndim)
    step = by[0] % max(x.value.size if over is None else (x.shape or (1,))[over], 1)
    if not x.shape:
        return x
    return tape.result(np.roll(x.value, step, over), (x, lambda grad: np.roll(grad, -step, over)))


def cat(tape: Tape, /, tensors: object, dim: object = 0) -> Array:
    """Concatenate tensors along a dimension."""
    parts = _alike(tape, tensors)
    over = axis(dim, parts[0].value.ndim)
    first = parts[0].shape
    others = {(*part.shape[:over], *part.shape[over + 1 :]) for part in parts}
    if not first or len(others) > 1 or any(part.value.ndim != len(first) for part in parts):
        refuse("these tensors do not join", "the same sizes in every other dimension")
    ends = np.cumsum([0, *(part.shape[over] for part in parts)]).tolist()
    tape.room((*first[:over], ends[-1], *first[over + 1 :]))
    before = (slice(None),) * over
    links = [
        (part, _cut((*before, slice(begin, end)))) for part, begin, end in zip(parts, ends[:-1], ends[1:], strict=True)
    ]
    return tape.result(np.concatenate([part.value for part in parts], over), *links)


def _cut(own: tuple[slice, ...]) -> Back:
    return lambda grad: grad[own]


def stack(tape: Tape, /, tensors: object, dim: object = 0) -> Array:
    """Stack tensors of one shape along a new dimension."""
    parts = _alike(tape, tensors)
    if len({part.shape for part in parts}) > 1:
        refuse("these tensors do not stack", "the same shape")
    at = axis(dim, parts[0].value.ndim + 1)
    return cat(tape, [unsqueeze(tape, part, at) for part in parts], at)


def _alike(tape: Tape, tensors: object) -> list[Array]:
    parts = [tensor(each) for each in items(tensors)]
    if not parts:
        refuse(f"there is nothing in {shown(tensors)}", "at least one tensor")
    if any(part.is_float for part in parts):
        return [real(tape, part) for part in parts]
    if len({part.value.dtype for part in parts}) > 1:
        return [array(tape, tape.constant(part.value.astype(np.int64))) for part in parts]
    return parts
