"""Sums of a custom loss: each element of a result is rounded once, so that the order of addition changes no bit."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tinsmith.ops.exact import Float64Array, fsum, fsum_of


def summed(values: Float64Array, axes: Sequence[int], *, keep: bool) -> Float64Array:
    """Return the sum over some axes (none: over none), each element rounded once; `keep` keeps axes with length 1."""
    other_axes = [axis for axis in range(values.ndim) if axis not in axes]
    shape = tuple(values.shape[axis] for axis in other_axes)
    if keep:
        shape = tuple(1 if axis in axes else size for axis, size in enumerate(values.shape))
    if not other_axes:
        return np.asarray(fsum(values)).reshape(shape)
    count = math.prod(values.shape[axis] for axis in axes)
    if count == 0:
        return np.zeros(shape)
    if count == 1:
        return values.reshape(shape)
    rows = values.transpose([*other_axes, *axes]).reshape(-1, count)
    sums = rows[:, 0] + rows[:, 1] if count == 2 else np.array([fsum_of(row) for row in rows.tolist()])
    return sums.astype(np.float64).reshape(shape)


def summed_to(values: Float64Array, shape: tuple[int, ...]) -> Float64Array:
    """Return the sum over everything that broadcasting from `shape` repeated."""
    if values.shape == shape:
        return values
    added = values.ndim - len(shape)
    axes = [axis for axis, size in enumerate(values.shape) if axis < added or (shape[axis - added] == 1 and size != 1)]
    return summed(values, axes, keep=False).reshape(shape)


def counted(values: NDArray[np.generic], axes: Sequence[int], *, keep: bool) -> NDArray[np.int64]:
    """Return the sum of integers or booleans over some axes, in int64."""
    whole: NDArray[np.int64] = values.astype(np.int64)
    return np.asarray(whole.sum(axis=tuple(axes), keepdims=keep, dtype=np.int64))
