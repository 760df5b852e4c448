"""Reductions over some or all dimensions: sums, means, extremes and functions of them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tinsmith.ops.custom_loss.arguments import (
    Axes,
    axes,
    axis,
    converted,
    flag,
    floats,
    kind,
    number,
    real,
    refuse,
    tensor,
)
from tinsmith.ops.custom_loss.arithmetic import add, div, maximum, minimum, mul, sub
from tinsmith.ops.custom_loss.elementwise import UNARY, Operation
from tinsmith.ops.custom_loss.shapes import expanded
from tinsmith.ops.custom_loss.sums import counted, summed
from tinsmith.ops.custom_loss.tape import Array, Tape, Values
from tinsmith.ops.exact import Float64Array


def _typed(tape: Tape, value: object, dtype: object) -> Array:
    given = tensor(value)
    return given if dtype is None else converted(given, kind(dtype), tape)


def sum_of(tape: Tape, /, input: object, dim: object = None, keepdim: object = False, *, dtype: object = None) -> Array:
    """Sum, rounded once; for booleans the number of True."""
    x, keep = _typed(tape, input, dtype), flag(keepdim)
    over = axes(dim, x.value.ndim)
    if not x.is_float:
        return tape.constant(counted(x.value, over, keep=keep))
    return tape.result(summed(floats(x), over, keep=keep), (x, lambda grad: _spread(grad, x.shape, over)))


def mean(tape: Tape, /, input: object, dim: object = None, keepdim: object = False, *, dtype: object = None) -> Array:
    """Compute the sum divided by the number of elements; NaN for none."""
    x = _typed(tape, input, dtype)
    if not x.is_float:
        refuse(f"there is no mean of {x.value.dtype}", "real numbers: x.float().mean()")
    over = axes(dim, x.value.ndim)
    count = math.prod(x.shape[each] for each in over)
    value = summed(floats(x), over, keep=flag(keepdim)) / np.float64(count)
    return tape.result(value, (x, lambda grad: _spread(grad, x.shape, over) / np.float64(count)))


def variance(
    tape: Tape, /, input: object, dim: object = None, unbiased: object = None, keepdim: object = False,
    *, correction: object = None,
) -> Array:  # fmt: skip
    """Compute the sum of squared deviations from the mean, divided by their number minus the correction (1)."""
    x = real(tape, tensor(input))
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        refuse("both unbiased and correction are given", "one of them")
    less = float(number(correction)) if correction is not None else float(unbiased is not False)
    over = axes(dim, x.value.ndim)
    distance = tensor(sub(tape, x, mean(tape, x, list(over), True))) if over else sub(tape, x, x)
    squares = sum_of(tape, mul(tape, distance, distance), list(over), flag(keepdim))
    count = math.prod(x.shape[each] for each in over)
    return tensor(div(tape, squares, max(count - less, 0.0) or tape.constant(0.0)))


def deviation(
    tape: Tape, /, input: object, dim: object = None, unbiased: object = None, keepdim: object = False,
    *, correction: object = None,
) -> Array:  # fmt: skip
    """Compute the square root of the variance, with slope 0 at 0, as torch does."""
    x = variance(tape, input, dim, unbiased, keepdim, correction=correction)
    tape.room(x.shape)
    y = np.sqrt(floats(x))
    return tape.result(y, (x, lambda grad: np.where(y == 0.0, 0.0, grad / (2.0 * y))))


def _evenly(choose: Callable[[Values, Axes], Values]) -> Operation:
    """Reduce to an extreme over dimensions; tied elements share the slope."""

    def operation(tape: Tape, /, input: object, dim: object = (), keepdim: object = False) -> Array:
        x = tensor(input)
        over = axes(dim, x.value.ndim)
        if 0 in (x.shape[each] for each in over):
            refuse("there is no extreme of nothing", "at least one element")
        value = choose(x.value, over)
        ties = np.asarray(x.value == value)

        def back(grad: Float64Array) -> Float64Array:
            shared = _spread(grad, x.shape, over) / summed(ties.astype(np.float64), over, keep=True)
            return np.where(ties, shared, 0.0)

        output = value if flag(keepdim) else value.reshape(_without(x.shape, over))
        return tape.result(output, (x, back))

    return operation


amax = _evenly(lambda x, over: np.asarray(np.max(x, axis=over, keepdims=True)))
amin = _evenly(lambda x, over: np.asarray(np.min(x, axis=over, keepdims=True)))


def _extreme(of_all: Operation, of_two: Operation, place: Callable[[Values, int], Values]) -> Operation:
    """Compute torch.max or torch.min: of a whole tensor, of two tensors, or (values, indices) over a dimension."""

    def operation(
        tape: Tape, /, input: object, dim: object = None, keepdim: object = False, *, other: object = None
    ) -> object:  # fmt: skip
        x = tensor(input)
        if other is not None or isinstance(dim, Array):
            return of_two(tape, x, dim if other is None else other)
        if dim is None:
            return of_all(tape, x)
        over = axis(dim, x.value.ndim)
        if not x.shape:
            return of_all(tape, x), tape.constant(0)
        if x.shape[over] == 0:
            refuse("there is no extreme of nothing", "at least one element")
        at = np.expand_dims(np.asarray(place(x.value, over)), over)

        def back(grad: Float64Array) -> Float64Array:
            spread = np.zeros(x.shape)
            np.put_along_axis(spread, at, grad.reshape(at.shape), over)
            return spread

        shape = at.shape if flag(keepdim) else _without(x.shape, (over,))
        found = np.take_along_axis(x.value, at, over).reshape(shape)
        return tape.result(found, (x, back)), tape.constant(at.reshape(shape))

    return operation


largest = _extreme(amax, maximum, lambda x, over: np.argmax(x, axis=over))
smallest = _extreme(amin, minimum, lambda x, over: np.argmin(x, axis=over))


def logsumexp(tape: Tape, /, input: object, dim: object, keepdim: object = False) -> object:
    """Compute the log of the sum of exp, shifted by the largest value."""
    x = real(tape, tensor(input))
    over = list(axes(dim, x.value.ndim))
    if not over:
        return x
    top = tensor(amax(tape, x, over, True)).value
    shift = tape.constant(np.where(np.isfinite(top.astype(np.float64)), top, 0.0))
    total = sum_of(tape, UNARY["exp"](tape, sub(tape, x, shift)), over, True)
    found = tensor(add(tape, UNARY["log"](tape, total), shift))
    if flag(keepdim):
        return found
    shape = _without(x.shape, tuple(over))
    return tape.result(found.value.reshape(shape), (found, lambda grad: grad.reshape(found.shape)))


def softmax(tape: Tape, /, input: object, dim: object = None, dtype: object = None, _stacklevel: object = 3) -> object:
    """Compute exp(x - logsumexp) over a dimension."""
    return UNARY["exp"](tape, log_softmax(tape, input, dim, dtype, _stacklevel))


def log_softmax(
    tape: Tape, /, input: object, dim: object = None, dtype: object = None, _stacklevel: object = 3
) -> object:
    """Compute x - logsumexp over a dimension."""
    del _stacklevel  # of a warning
    if dim is None:
        refuse("softmax needs a dimension", "dim=...")
    x = real(tape, _typed(tape, input, dtype))
    return sub(tape, x, logsumexp(tape, x, dim, True))


def cumsum(tape: Tape, /, input: object, dim: object, *, dtype: object = None) -> Array:
    """Compute cumulative sums, one addition after another."""
    x = _typed(tape, input, dtype)
    over = axis(dim, x.value.ndim)
    tape.room(x.shape)
    if not x.is_float:
        whole = x.value.astype(np.int64)
        return tape.constant(np.cumsum(whole, axis=over) if x.shape else whole)
    if not x.shape:
        return x

    def back(grad: Float64Array) -> Float64Array:
        return np.flip(np.add.accumulate(np.flip(grad, over), axis=over), over)

    return tape.result(np.add.accumulate(floats(x), axis=over), (x, back))


def any_of(tape: Tape, /, input: object, dim: object = None, keepdim: object = False) -> Array:
    """Return True where any element is not 0."""
    x = tensor(input)
    over = axes(dim, x.value.ndim)
    return tape.constant(np.any(x.value != 0, axis=over, keepdims=flag(keepdim)))


def all_of(tape: Tape, /, input: object, dim: object = None, keepdim: object = False) -> Array:
    """Return True where no element is 0."""
    x = tensor(input)
    over = axes(dim, x.value.ndim)
    return tape.constant(np.all(x.value != 0, axis=over, keepdims=flag(keepdim)))


def count_nonzero(tape: Tape, /, input: object, dim: object = None) -> Array:
    """Return the number of elements that are not 0."""
    x = tensor(input)
    return tape.constant(counted(x.value != 0, axes(dim, x.value.ndim), keep=False))


def dot(tape: Tape, /, input: object, tensor: object) -> Array:
    """Compute the dot product of two vectors."""
    product = mul(tape, input, tensor)
    if not isinstance(product, Array) or product.value.ndim != 1:
        refuse("dot is of two vectors", "two tensors of one dimension")
    return sum_of(tape, product)


def mse_loss(
    tape: Tape, /, input: object, target: object, size_average: object = None,
    reduce: object = None, reduction: object = "mean", weight: object = None,
) -> object:  # fmt: skip
    """Compute squared differences, or their sum or mean."""
    if size_average is not None or reduce is not None or weight is not None:
        refuse("size_average, reduce and weight are not taken", "reduction")
    if tensor(input).shape != tensor(target).shape:
        refuse("mse_loss is of two tensors of one shape", "equal shapes")
    squares = UNARY["square"](tape, real(tape, sub(tape, input, target)))
    match reduction:
        case "none":
            return squares
        case "sum":
            return sum_of(tape, squares)
        case "mean":
            return mean(tape, squares)
        case _:
            refuse(f"there is no reduction {reduction!r}", "none, sum, mean")


def _without(shape: tuple[int, ...], over: Axes) -> tuple[int, ...]:
    return tuple(size for each, size in enumerate(shape) if each not in over)


def _spread(grad: Float64Array, shape: tuple[int, ...], over: Axes) -> Float64Array:
    """Give every summed element the gradient of its sum."""
    keepdim_shape = tuple(1 if each in over else size for each, size in enumerate(shape))
    return expanded(grad.reshape(keepdim_shape), shape)
