"""Further elementary functions in float64, as fixed sequences of IEEE operations on `ops.exact`'s exp and log.

So a custom loss has the same bits on every machine. The error is at most four units in the last place, except for
`power`, whose relative error grows with |y log x| where y is neither a small integer nor a half.
"""

from __future__ import annotations

import numpy as np

from tinsmith.ops.exact import Float64Array, exp, exp_remainder, log

_NEAR = 0.34
"""Bound on |x|, about ln(2) / 2, below which exp(x) - 1 would cancel."""
_SMALL_POWER = 32


def expm1(x: Float64Array) -> Float64Array:
    """Return e**x - 1 elementwise; x's shape."""
    near = np.abs(x) <= _NEAR
    inside = np.where(near, x, 0.0)
    return np.where(near, inside + exp_remainder(inside), exp(x) - 1.0)


def log1p(x: Float64Array) -> Float64Array:
    """Return log(1 + x) elementwise; x's shape. The rounding error of 1 + x is corrected by x / ((1 + x) - 1)."""
    total = 1.0 + x
    usual = np.isfinite(total) & (total != 1.0)
    lost = np.where(usual, x / np.where(usual, total - 1.0, 1.0), 1.0)
    return np.where(total == 1.0, x, log(total) * lost)


def sigmoid(x: Float64Array) -> Float64Array:
    """Return 1 / (1 + e**-x) elementwise; x's shape."""
    small = exp(-np.abs(x))
    return np.where(x >= 0.0, 1.0, small) / (1.0 + small)


def tanh(x: Float64Array) -> Float64Array:
    """Return the hyperbolic tangent elementwise; x's shape."""
    below = expm1(-2.0 * np.abs(x))
    return np.copysign(-below / (below + 2.0), x)


def softplus(x: Float64Array) -> Float64Array:
    """Return log(1 + e**x) elementwise; x's shape."""
    return np.maximum(x, 0.0) + log1p(exp(-np.abs(x)))


def power(x: Float64Array, y: Float64Array) -> Float64Array:
    """Return x**y elementwise, both of one shape; 1 where x is 1 or y is 0.

    A whole y up to 32 in size is repeated multiplication, one half the square root; any other is exp(y log |x|), with
    the sign of x where y is odd, and NaN where x < 0 and y is not whole.
    """
    result = exp(y * log(np.abs(x)))
    whole = np.isfinite(y) & (np.rint(y) == y)
    odd = whole & (np.abs(np.fmod(y, 2.0)) == 1.0)
    negative = np.signbit(x) & np.isfinite(x)
    result = np.where(negative & odd, -result, result)
    result = np.where((x < 0.0) & np.isfinite(x) & ~whole & np.isfinite(y), np.nan, result)
    result = np.where(y == 0.5, np.sqrt(x) + 0.0, result)
    result = np.where((x == 1.0) | (y == 0.0) | ((x == -1.0) & np.isinf(y)), 1.0, result)
    small = whole & (np.abs(y) <= _SMALL_POWER)
    if small.any():
        result = np.where(small, _multiplied(x, np.where(small, y, 0.0)), result)
    return result


def _multiplied(x: Float64Array, y: Float64Array) -> Float64Array:
    """Compute x**y for integer y, |y| <= 32: squares are multiplied together from the lowest bit of |y| on."""
    left = np.abs(y).astype(np.int64)
    result, square = np.ones_like(x), x
    while left.any():
        result = np.where(left & 1, result * square, result)
        left = left >> 1
        square = square * square
    return np.where(y < 0.0, 1.0 / result, result)
