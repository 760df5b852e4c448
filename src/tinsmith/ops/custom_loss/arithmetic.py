"""Operations on two tensors, broadcast to one shape, and selections between them; slopes at ties are torch's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.custom_loss import functions
from tinsmith.ops.custom_loss.arguments import Number, array, floats, real, refuse, tensor, truths
from tinsmith.ops.custom_loss.elementwise import Operation
from tinsmith.ops.custom_loss.tape import Array, Back, Tape, Values
from tinsmith.ops.exact import Float64Array, log


def broadcast(tape: Tape, *operands: Array) -> tuple[int, ...]:
    """Return the common broadcast shape, and reject one that is too large."""
    try:
        shape = np.broadcast_shapes(*(each.shape for each in operands))
    except ValueError:
        refuse(
            f"shapes {' and '.join(str(each.shape) for each in operands)} do not go together",
            "shapes that broadcast to one",
        )
    tape.room(shape)
    return shape


def pair(tape: Tape, left: object, right: object) -> tuple[Array, Array]:
    """Return both as tensors of one type: real if either is, else integer if either is."""
    a, b = array(tape, left), array(tape, right)
    if a.is_float or b.is_float:
        a, b = real(tape, a), real(tape, b)
    elif a.value.dtype != b.value.dtype:
        a, b = (tape.constant(each.value.astype(np.int64)) for each in (a, b))
    broadcast(tape, a, b)
    return a, b


def _plain(result: Array, *operands: object) -> Array | Number:
    """Return a number if all operands were numbers."""
    if any(isinstance(each, Array) for each in operands):
        return result
    return result.value.item()


def _scaled(tape: Tape, other: object, alpha: object) -> object:
    return other if alpha == 1 else mul(tape, other, alpha)


def add(tape: Tape, /, input: object, other: object, *, alpha: object = 1) -> object:
    """Compute a + alpha b."""
    a, b = pair(tape, input, _scaled(tape, other, alpha))
    value = np.add(a.value, b.value)
    return _plain(tape.result(value, (a, _same), (b, _same)), input, other)


def sub(tape: Tape, /, input: object, other: object, *, alpha: object = 1) -> object:
    """Compute a - alpha b."""
    a, b = pair(tape, input, _scaled(tape, other, alpha))
    if a.value.dtype == np.bool_:
        refuse("truth values are not subtracted", "numbers: x.float()")
    value = np.subtract(a.value, b.value)
    return _plain(tape.result(value, (a, _same), (b, _minus)), input, other)


def rsub(tape: Tape, /, input: object, other: object, *, alpha: object = 1) -> object:
    """Compute b - alpha a."""
    return sub(tape, other, input, alpha=alpha)


def mul(tape: Tape, /, input: object, other: object) -> object:
    """Compute a b."""
    a, b = pair(tape, input, other)
    x, y = a.value, b.value
    value = np.multiply(x, y)
    result = tape.result(value, (a, lambda grad: grad * floats(b)), (b, lambda grad: grad * floats(a)))
    return _plain(result, input, other)


def div(tape: Tape, /, input: object, other: object, *, rounding_mode: object = None) -> object:
    """Compute a / b, always real."""
    if rounding_mode is not None:
        refuse("a quotient is not rounded", "rounding_mode=None", "use torch.floor")
    if not isinstance(input, Array) and not isinstance(other, Array) and other == 0:
        refuse("a number is divided by zero", "another divisor")
    a, b = real(tape, input), real(tape, other)
    broadcast(tape, a, b)
    x, y = floats(a), floats(b)
    value = x / y
    result = tape.result(value, (a, lambda grad: grad / y), (b, lambda grad: -grad * (value / y)))
    return _plain(result, input, other)


def floordiv(tape: Tape, /, input: object, other: object) -> object:
    """Compute a / b rounded down, with slope 0."""
    a, b = pair(tape, input, other)
    if not a.is_float and not np.all(b.value):
        refuse("a whole number is divided by zero", "another divisor")
    if a.value.dtype == np.bool_:
        refuse("truth values are not divided", "numbers")
    return _plain(tape.constant(np.floor_divide(a.value, b.value)), input, other)


def power(tape: Tape, /, input: object, exponent: object) -> object:
    """Compute a**b; real unless both are integers and b is not negative."""
    a, b = pair(tape, input, exponent)
    if not a.is_float:
        if bool((b.value < 0).any()):
            refuse("a whole number is not raised to a negative power", "x.float() ** y")
        raised = np.power(a.value.astype(np.int64), b.value.astype(np.int64))
        return _plain(tape.constant(raised), input, exponent)
    shape = np.broadcast_shapes(a.shape, b.shape)
    x, y = (np.broadcast_to(floats(each), shape) for each in (a, b))
    value = functions.power(x, y)

    def of_base(grad: Float64Array) -> Float64Array:
        return np.where(y == 0.0, 0.0, grad * (y * functions.power(x, y - 1.0)))

    def of_exponent(grad: Float64Array) -> Float64Array:
        return np.where((x == 0.0) & (y >= 0.0), 0.0, grad * (value * log(x)))

    return _plain(tape.result(value, (a, of_base), (b, of_exponent)), input, exponent)


def _extreme(choose: Callable[[Values, Values], Values]) -> Operation:
    """Compute the larger or the smaller of two; at a tie each has half the slope."""

    def operation(tape: Tape, /, input: object, other: object) -> Array:
        a, b = pair(tape, tensor(input), tensor(other))
        value = choose(a.value, b.value)
        tie = a.value == b.value

        def of(operand: Array) -> Back:
            chosen = value == operand.value
            return lambda grad: np.where(tie, grad * 0.5, np.where(chosen, grad, 0.0))

        return tape.result(value, (a, of(a)), (b, of(b)))

    return operation


maximum = _extreme(lambda a, b: np.maximum(a, b))
minimum = _extreme(lambda a, b: np.minimum(a, b))


def compared(compare: Callable[[Values, Values], NDArray[np.bool_]]) -> Operation:
    """Compare elementwise."""

    def operation(tape: Tape, /, input: object, other: object) -> object:
        a, b = pair(tape, input, other)
        return _plain(tape.constant(np.asarray(compare(a.value, b.value))), input, other)

    return operation


def connected(connect: Callable[[Values, Values], Values], *, strict: bool) -> Operation:
    """Combine booleans; `strict` allows nothing else, where torch would combine bits."""

    def operation(tape: Tape, /, input: object, other: object) -> object:
        a, b = array(tape, input), array(tape, other)
        if strict and not a.value.dtype == b.value.dtype == np.bool_:
            refuse("bits of numbers are not connected", "truth values, such as x != 0")
        broadcast(tape, a, b)
        return _plain(tape.constant(connect(a.value != 0, b.value != 0)), input, other)

    return operation


def where(tape: Tape, /, condition: object, input: object, other: object) -> Array:
    """Select a where the condition holds, else b."""
    chosen = tensor(condition)
    holds = truths(chosen)
    a, b = pair(tape, input, other)
    broadcast(tape, chosen, a, b)
    return tape.result(
        np.where(holds, a.value, b.value),
        (a, lambda grad: np.where(holds, grad, 0.0)),
        (b, lambda grad: np.where(holds, 0.0, grad)),
    )


def where_method(tape: Tape, /, input: object, condition: object, other: object) -> Array:
    """Compute x.where(condition, other)."""
    return where(tape, condition, input, other)


def masked_fill(tape: Tape, /, input: object, mask: object, value: object) -> Array:
    """Select the value where the mask holds, else x."""
    filled = where(tape, mask, value, tensor(input))
    if not tensor(input).is_float and filled.is_float:
        refuse("a real number does not fit into whole ones", "x.float().masked_fill(...)")
    return filled


def clamp(tape: Tape, /, input: object, min: object = None, max: object = None) -> Array:
    """Clamp x to bounds, which may be tensors; the slope is 1 on the closed interval, whatever torch has at a bound."""
    x = array(tape, tensor(input))
    if min is None and max is None:
        refuse("clamp needs a bound", "min, max or both")
    low = None if min is None else array(tape, min)
    high = None if max is None else array(tape, max)
    bounds = [each for each in (low, high) if each is not None]
    if any(each.is_float for each in (x, *bounds)):
        x = real(tape, x)
        low, high = (None if each is None else real(tape, each) for each in (low, high))
        bounds = [each for each in (low, high) if each is not None]
    broadcast(tape, x, *bounds)
    value = x.value
    inside: NDArray[np.bool_] = np.ones(np.broadcast_shapes(x.shape, *(b.shape for b in bounds)), bool)
    links: list[tuple[Array, Back]] = []
    above = np.zeros_like(inside) if high is None else np.asarray(value > high.value)
    if low is not None:
        below = np.asarray(value < low.value)
        crossed = np.zeros_like(inside) if high is None else np.asarray(low.value >= high.value)
        value, inside = np.maximum(value, low.value), inside & ~below
        links.append((low, _chosen(below & ~crossed)))
    if high is not None:
        crossed = np.zeros_like(inside) if low is None else np.asarray(low.value > high.value)
        value, inside = np.minimum(value, high.value), inside & ~above
        links.append((high, _chosen(above | crossed)))
    return tape.result(np.asarray(value), (x, _chosen(inside)), *links)


def clamp_min(tape: Tape, /, input: object, min: object) -> Array:
    """Clamp x from below."""
    return clamp(tape, input, min=min)


def clamp_max(tape: Tape, /, input: object, max: object) -> Array:
    """Clamp x from above."""
    return clamp(tape, input, max=max)


def _chosen(where: NDArray[np.bool_]) -> Back:
    return lambda grad: np.where(where, grad, 0.0)


def _same(grad: Float64Array) -> Float64Array:
    return grad


def _minus(grad: Float64Array) -> Float64Array:
    return -grad
