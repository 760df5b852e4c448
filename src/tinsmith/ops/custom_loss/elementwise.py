"""Operations on one tensor, element by element, each with its derivative; torch's where it is undefined."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tinsmith.ops.custom_loss import functions
from tinsmith.ops.custom_loss.arguments import array, flag, floats, kind, number, real, refuse, shown, tensor
from tinsmith.ops.custom_loss.tape import Array, Tape, Values
from tinsmith.ops.exact import Float64Array, exp, log

Operation = Callable[..., object]
"""Function (tape, *arguments as in torch) -> a tensor, a number, or a tuple of them."""

_Value = Callable[[Float64Array], Float64Array]
_Slope = Callable[[Float64Array, Float64Array, Float64Array], Float64Array]
"""Function (gradient of the result, operand, result) -> gradient of the operand."""


def _smooth(value: _Value, slope: _Slope) -> Operation:
    def operation(tape: Tape, /, input: object) -> Array:
        x = real(tape, input)
        tape.room(x.shape)
        values = floats(x)
        y = value(values)
        return tape.result(y, (x, lambda grad: slope(grad, values, y)))

    return operation


def _numeric(value: Callable[[Values], Values], slope: _Slope) -> Operation:
    """Define an operation like `_smooth` that also applies to integers."""

    def operation(tape: Tape, /, input: object) -> Array:
        x = array(tape, input)
        if x.value.dtype == np.bool_:
            refuse("truth values have no sign and no magnitude", "numbers: x.float()")
        tape.room(x.shape)
        y = value(x.value)
        return tape.result(y, (x, lambda grad: slope(grad, floats(x), y.astype(np.float64))))

    return operation


def _tested(test: Callable[[Float64Array], Values]) -> Operation:
    def operation(tape: Tape, /, input: object) -> Array:
        x = tensor(input)
        tape.room(x.shape)
        return tape.constant(test(floats(x)))

    return operation


def relu(tape: Tape, /, input: object, inplace: object = False) -> object:
    """Compute max(x, 0), with slope 0 at 0."""
    if flag(inplace):
        refuse("a value is not changed in place", "inplace=False")
    return _RELU(tape, input)


def silu(tape: Tape, /, input: object, inplace: object = False) -> Array:
    """Compute x sigmoid(x)."""
    if flag(inplace):
        refuse("a value is not changed in place", "inplace=False")
    x = real(tape, input)
    tape.room(x.shape)
    values = floats(x)
    gate = functions.sigmoid(values)
    return tape.result(values * gate, (x, lambda grad: grad * (gate * (1.0 + values * (1.0 - gate)))))


def softplus(tape: Tape, /, input: object, beta: object = 1, threshold: object = 20) -> Array:
    """Compute log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold, as torch does."""
    x, scale, limit = real(tape, input), float(number(beta)), float(number(threshold))
    tape.room(x.shape)
    scaled = floats(x) * scale
    linear = scaled > limit
    value = np.where(linear, floats(x), functions.softplus(scaled) / scale)
    return tape.result(value, (x, lambda grad: np.where(linear, grad, grad * functions.sigmoid(scaled))))


def detach(tape: Tape, /, input: object) -> Array:
    """Return the values as a constant: no gradient flows through them."""
    return tape.constant(tensor(input).value)


def clone(tape: Tape, /, input: object, memory_format: object = None) -> Array:
    """Return the tensor unchanged."""
    del tape, memory_format  # values have no order in memory here
    return tensor(input)


def logical_not(tape: Tape, /, input: object) -> Array:
    """Return True where x is 0."""
    x = tensor(input)
    tape.room(x.shape)
    return tape.constant(x.value == 0)


def invert(tape: Tape, /, input: object) -> object:
    """Negate booleans."""
    if isinstance(input, bool):
        return not input
    x = tensor(input)
    if x.value.dtype != np.bool_:
        refuse(f"~ of {x.value.dtype}", "truth values, such as x != 0")
    return logical_not(tape, x)


def positive(tape: Tape, /, input: object) -> object:
    """Return the value unchanged."""
    del tape
    return input if isinstance(input, (int, float)) else tensor(input)


def negative(tape: Tape, /, input: object) -> object:
    """Compute -x."""
    if isinstance(input, (int, float)):
        return -input
    return _NEGATED(tape, input)


def magnitude(tape: Tape, /, input: object) -> object:
    """Compute |x|, with slope 0 at 0."""
    if isinstance(input, (int, float)):
        return abs(input)
    return _ABSOLUTE(tape, input)


def of_number(value: _Value) -> Operation:
    """Define an operation from the module math, on numbers such as a shape's, not on tensors."""

    def operation(tape: Tape, x: object, /) -> float:
        del tape
        if not isinstance(x, (int, float)):
            refuse(f"math's functions take numbers, not {shown(x)}", "a number", "use torch's function")
        return float(value(np.asarray(float(x))))

    return operation


def is_floating_point(tape: Tape, /, input: object) -> bool:
    """True if a tensor holds real numbers."""
    del tape
    return kind(tensor(input).value.dtype) == np.float64


_RELU = _smooth(lambda x: np.maximum(x, 0.0), lambda grad, x, _: np.where(x > 0.0, grad, 0.0))
_NEGATED = _numeric(lambda x: np.negative(x), lambda grad, _x, _y: -grad)
_ABSOLUTE = _numeric(lambda x: np.abs(x), lambda grad, x, _: grad * np.sign(x))
_FLAT: _Slope = lambda grad, _x, _y: np.zeros_like(grad)  # noqa: E731

UNARY: Mapping[str, Operation] = {
    "exp": _smooth(exp, lambda grad, _, y: grad * y),
    "expm1": _smooth(functions.expm1, lambda grad, _, y: grad * (y + 1.0)),
    "log": _smooth(log, lambda grad, x, _: grad / x),
    "log1p": _smooth(functions.log1p, lambda grad, x, _: grad / (x + 1.0)),
    "sqrt": _smooth(lambda x: np.sqrt(x), lambda grad, _, y: grad / (2.0 * y)),
    "rsqrt": _smooth(lambda x: 1.0 / np.sqrt(x), lambda grad, _, y: -0.5 * grad * (y * y * y)),
    "reciprocal": _smooth(lambda x: 1.0 / x, lambda grad, _, y: -grad * (y * y)),
    "sigmoid": _smooth(functions.sigmoid, lambda grad, _, y: grad * ((1.0 - y) * y)),
    "logsigmoid": _smooth(lambda x: -functions.softplus(-x), lambda grad, x, _: grad * functions.sigmoid(-x)),
    "tanh": _smooth(functions.tanh, lambda grad, _, y: grad * (1.0 - y * y)),
    "square": _numeric(lambda x: x * x, lambda grad, x, _: grad * (2.0 * x)),
    "sign": _numeric(lambda x: np.sign(x), _FLAT),
    "floor": _numeric(lambda x: np.floor(x), _FLAT),
    "ceil": _numeric(lambda x: np.ceil(x), _FLAT),
    "round": _numeric(lambda x: np.rint(x), _FLAT),
    "trunc": _numeric(lambda x: np.trunc(x), _FLAT),
    "relu": relu,
    "isnan": _tested(lambda x: np.isnan(x)),
    "isinf": _tested(lambda x: np.isinf(x)),
    "isfinite": _tested(lambda x: np.isfinite(x)),
    "logical_not": logical_not,
    "detach": detach,
    "clone": clone,
}
"""Torch's functions and methods of one tensor, by name."""
