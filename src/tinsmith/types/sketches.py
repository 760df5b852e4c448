"""Digest of a tensor: its hash, its norm, and a sketch that estimates the size of a difference.

A sketch holds eight projections s_j = sum_i r_ji x_i with signs r_ji of +1 and -1 that follow from the tensor's name
and size alone. Sketches are linear: for tensors a and b of one name and size, d_j = s_j(a) - s_j(b) are projections of
a - b, and E[d_j^2] = ||a - b||^2. So `distance`, the root of the mean of the d_j^2, estimates the L2 norm of a - b (by
about a quarter either way), and is 0.0 where a = b. Source: Alon, Matias, Szegedy, STOC 1996.

Every element adds its value, with its sign, to one of eight sums; the projections are these sums times the Hadamard
matrix of order 8, so that one pass gives all eight. Values are rounded to a grid of powers of two, so fine as fp64 can
sum without rounding: a sketch has the same bits on every machine.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.seeds import derive, random_bits

SKETCH = 8
"""Number of projections in a sketch."""

_BITS = 53
"""Bits of exact integers: those below 2 ** 53 are exact in fp64, and so are their sums below it."""

_CHUNK = 1 << 18
"""Elements in fp64 at a time, which limits the memory for large tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMark:
    """Digest of a tensor, for comparison with another run's."""

    sha256: str
    """First 16 hexadecimal digits of the SHA-256 of its values, little-endian fp32, -0.0 as +0.0."""
    norm: float | None
    """L2 norm; None if a value is not finite."""
    sketch: tuple[float, ...] | None
    """Eight projections of the tensor's values; None if a value is not finite."""


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Estimate the L2 norm of the difference of two tensors of one name and size from their sketches."""
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)) / len(a))


def digest(flat: NDArray[np.float32]) -> str:
    """Return `TensorMark.sha256` of values without -0.0, in published order."""
    data = flat if sys.byteorder == "little" else flat.astype("<f4")
    return hashlib.sha256(data.data).hexdigest()[:16]


def signs(name: str, size: int) -> NDArray[np.uint8]:
    """Return for each element the index of its sum, out of eight (low three bits), and its sign (the fourth)."""
    words = random_bits(derive(0, "sketch", name, size), (size + 15) // 16)
    pairs = words.astype("<u8").view(np.uint8)
    places = np.empty(2 * len(pairs), np.uint8)
    places[::2], places[1::2] = pairs & 15, pairs >> 4
    return places[:size]


def sketch(flat: NDArray[np.float32], places: NDArray[np.uint8]) -> tuple[float, ...] | None:
    """Return the sketch of a tensor's values; None if one is not finite."""
    peak = max(abs(float(flat.max(initial=0.0))), abs(float(flat.min(initial=0.0))))
    if not math.isfinite(peak):
        return None
    # |value| * scale < 2 ** (53 - bits of the count), so that any sum of all of them is below 2 ** 53.
    scale = _BITS - len(flat).bit_length() - math.frexp(peak)[1]
    sums = np.zeros(2 * SKETCH)
    for begin in range(0, len(flat), _CHUNK):
        grid = np.ldexp(flat[begin : begin + _CHUNK].astype(np.float64), scale)
        np.rint(grid, out=grid)
        sums += np.bincount(places[begin : begin + _CHUNK], grid, 2 * SKETCH)
    signed = sums[:SKETCH] - sums[SKETCH:]
    return tuple(math.ldexp(value, -scale) for value in (_HADAMARD @ signed).tolist())


def _hadamard(order: int) -> NDArray[np.float64]:
    """Sylvester's matrix: rows of +1 and -1, each orthogonal to the others."""
    if order == 1:
        return np.ones((1, 1))
    half = _hadamard(order // 2)
    return np.block([[half, half], [half, -half]])


_HADAMARD = _hadamard(SKETCH)
