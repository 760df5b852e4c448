"""Elementary functions in float64 whose bits depend only on their argument.

`np.exp` and `math.exp` round differently with the CPU's vector width and the C library. Here every function is a fixed
sequence of IEEE operations (add, multiply, rint, ldexp), each rounded once by its own ufunc; no multiply-add can fuse
across two ufuncs. They are not for tensors of a model: they run on the host, over per-token and per-group values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Float64Array = NDArray[np.float64]

_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")
"""ln 2 with 21 trailing zero bits: k * _LN2_HIGH is exact for every exponent k."""
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_HALF_LN2 = float.fromhex("0x1.62e42fefa39efp-2")
_HALF_PI = float.fromhex("0x1.921fb54442d18p+0")
_LOWEST, _HIGHEST = -746.0, 710.0
"""Outside these exp is 0 and inf."""
_SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
_ODD = tuple(1.0 / n for n in range(23, 1, -2))
"""Coefficients 1/23, 1/21 ... 1/3."""
_COEFFICIENTS = tuple(1.0 / math.factorial(n) for n in range(13, 1, -1))
"""Coefficients 1/13! ... 1/2!; the truncation error is below 2**-57 for |r| <= ln(2)/2."""


def exp(x: Float64Array) -> Float64Array:
    """Return e**x elementwise, within one unit in the last place of the true value.

    x = k ln 2 + r with |r| <= ln(2)/2; exp(r) by a fixed polynomial; scaled by 2**k. Exact at 0,
    inf and -inf; overflows to inf, underflows through the subnormals to 0; NaN stays NaN.
    Source: the argument reduction is Cody and Waite's (Software Manual for the Elementary
    Functions, 1980), with the rounding error of r carried along as in fdlibm's e_exp.c.

    Args:
        x: any shape, float64.

    Returns:
        An array of x's shape.
    """
    x = np.asarray(x, dtype=np.float64)
    is_nan = np.isnan(x)
    bounded = np.minimum(np.maximum(np.where(is_nan, 0.0, x), _LOWEST), _HIGHEST)
    k = np.rint(bounded * _LOG2_E)
    high = bounded - k * _LN2_HIGH  # exact: the product is, and the difference is of close numbers
    low = k * _LN2_LOW
    r = high - low
    lost = (high - r) - low
    mantissa = 1.0 + (r + (lost + _second_order(r)))
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(mantissa, k.astype(np.int32))
    return np.where(is_nan, x, scaled)


def log(x: Float64Array) -> Float64Array:
    """Return the natural logarithm elementwise, within two units in the last place of the true value.

    x = 2**k m with sqrt(1/2) <= m < sqrt(2); log m = 2 artanh(s), s = (m - 1) / (m + 1), by its series to s**23, with a
    truncation error below 2**-60 for |s| <= 0.172. Exact at 1; -inf at 0, inf at inf, NaN below 0. Source: the
    reduction is fdlibm's e_log.c.

    Args:
        x: any shape, float64.

    Returns:
        An array of x's shape.
    """
    x = np.asarray(x, dtype=np.float64)
    usual = (x > 0.0) & np.isfinite(x)
    mantissa, exponent = np.frexp(np.where(usual, x, 1.0))
    below = mantissa < _SQRT_HALF
    mantissa = np.where(below, 2.0 * mantissa, mantissa)
    k = (exponent - below).astype(np.float64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    square = s * s
    series = np.full_like(s, _ODD[0])
    for coefficient in _ODD[1:]:
        series = series * square + coefficient
    found = k * _LN2_HIGH + (2.0 * s + (2.0 * s * square * series + k * _LN2_LOW))
    unusual = np.where(x == 0.0, -np.inf, np.where(x > 0.0, x, np.nan))
    return np.where(usual, found, unusual)


def exp_remainder(x: Float64Array) -> Float64Array:
    """Return exp(x) - 1 - x elementwise without cancellation, so that it is never negative.

    Args:
        x: any shape, float64.

    Returns:
        An array of x's shape; exactly 0 at 0, about x**2 / 2 near it.
    """
    x = np.asarray(x, dtype=np.float64)
    near = np.abs(x) <= _HALF_LN2
    with np.errstate(invalid="ignore"):
        far = np.where(np.isposinf(x), np.inf, (exp(x) - 1.0) - x)
    return np.where(near, _second_order(np.where(near, x, 0.0)), far)


def raised_cosine(share: float) -> float:
    """Return (1 + cos(pi share)) / 2 for a share in [0, 1], within five units in the last place of the true value.

    It is cos(t)^2 with t = pi share / 2 up to a half, and sin(pi (1 - share) / 2)^2 above it, so that nothing cancels
    near 0; both by their series. Exact at 0, 1/2 and 1.

    >>> [raised_cosine(share) for share in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    if share == 0.5:
        return 0.5
    first = 0 if share < 0.5 else 1
    t = _HALF_PI * (share if share < 0.5 else 1.0 - share)
    square, series = t * t, 0.0
    for n in range(18 + first, first, -2):  # (-1)^(n/2) / n!, smallest first
        series = (series + (-1.0) ** (n // 2) / math.factorial(n)) * square
    value = 1.0 + series if first == 0 else t * (1.0 + series)
    return value * value


def fsum(x: NDArray[np.floating]) -> float:
    """Return the sum of all elements, rounded once: no order of addition can change its bits.

    An infinity or NaN gives what IEEE addition gives (inf - inf is NaN); a sum too large is inf.

    Args:
        x: any shape; float32 or float64.

    Returns:
        The correctly rounded sum; 0.0 for an empty array.

    >>> fsum(np.array([1e16, 1.0, -1e16]))
    1.0
    """
    return fsum_of(np.asarray(x, dtype=np.float64).ravel().tolist())


def fsum_of(values: Sequence[float]) -> float:
    """Return `fsum` of a list of numbers."""
    try:
        return math.fsum(values)
    except ValueError:  # inf and -inf
        return math.nan
    except OverflowError:  # a partial sum left the range; scaled by 2**-64 it does not
        return math.fsum(math.ldexp(value, -64) for value in values) * 2.0**64


def mean(x: NDArray[np.floating]) -> float:
    """Return fsum(x) divided by the number of elements (at least one).

    >>> mean(np.array([1.0, 0.0]))
    0.5
    """
    return fsum(x) / x.size


def _second_order(r: Float64Array) -> Float64Array:
    """Compute exp(r) - 1 - r for |r| <= ln(2)/2, by Horner's rule: r**2 (1/2! + r/3! + ... + r**11/13!)."""
    series = np.full_like(r, _COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        series = series * r + coefficient
    return (r * r) * series
