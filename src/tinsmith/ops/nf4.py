"""NF4 weights with double quantisation, encoded and decoded to the same bits on every machine.

A weight is cut, row-major, into blocks of 64. A block stores its largest magnitude (absmax) and, per weight, the
nearest of 16 levels of weight / absmax, two codes a byte, first weight in the high nibble. The absmax values, less
their mean, are then coded the same way: 256 of them share one fp32 scale, each is the nearest of 256 values of the
dynamic 8-bit map.

Source: arXiv:2305.14314 sec. 3 (NF4, double quantisation), arXiv:1511.04561 (dynamic map). Layout,
levels, thresholds, dynamic map and decoding are those of bitsandbytes, with two deviations. The
mean is that of the exact sum, where bitsandbytes takes torch's, whose order of summation is left
open. An absmax code is the nearest, as in bitsandbytes' GPU and plain torch kernels, where its CPU
kernel first rounds to a grid of 65536 points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.datum import FloatArray
from tinsmith.types.errors import CheckpointError, InputError

ByteArray = NDArray[np.uint8]
_T = TypeVar("_T", bound=np.generic)

BLOCK = 64
"""Weights per absmax."""

GROUP = 256
"""Absmax values per scale."""

_CHUNK = 2048
"""Blocks encoded at a time, so that temporaries stay in cache; no bit changes."""

_TINY = np.float32(1e-38)
"""Least divisor, as in bitsandbytes: an all-zero block gets the level 0, not NaN."""


def _nf4_levels() -> FloatArray:
    levels = (
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    )
    return np.array(levels, dtype=np.float32)


def _dynamic_levels() -> FloatArray:
    """Build the signed dynamic map: 7 decades, 2^i means in decade i per sign, 0 and 1; ascending.

    A decade's boundaries are evenly spaced over [0.1, 1], one fma each, from the nearer end. That
    is torch's `linspace` on vector units with fma, and so bitsandbytes' table there; where torch
    has no fma, 42 entries of it differ by a unit or two in the last place.
    """
    low, high = np.float32(0.1), np.float32(1.0)
    levels: list[float] = [0.0, 1.0]
    for i, decade in enumerate((1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)):
        count = 2**i
        step = float((high - low) / np.float32(count))
        k = np.arange(count + 1, dtype=np.float64)
        # Products and sums are exact in fp64, so that the cast is the only rounding, as in an fma.
        rising, falling = float(low) + step * k, float(high) - step * (count - k)
        bounds = np.where(k < (count + 1) // 2, rising, falling).astype(np.float32)
        means = (bounds[:-1] + bounds[1:]) / np.float32(2) * np.float32(decade)
        levels += [*means.tolist(), *(-means).tolist()]
    return np.array(sorted(levels), dtype=np.float32)


def _midpoints(levels: FloatArray) -> FloatArray:
    """Return the thresholds between neighbours; a value on a threshold belongs to the lower level."""
    return (levels[:-1] + levels[1:]) / np.float32(2)


NF4_LEVELS = _nf4_levels()
"""The 16 levels, ascending, -1 to 1, with an exact 0 at code 7. Shape (16,)."""

DYNAMIC_LEVELS = _dynamic_levels()
"""The 256 values of the signed dynamic 8-bit map, ascending, with an exact 0. Shape (256,)."""

_NF4_THRESHOLDS = _midpoints(NF4_LEVELS)
_DYNAMIC_THRESHOLDS = _midpoints(DYNAMIC_LEVELS)
_PAIRS = NF4_LEVELS[np.stack([np.arange(256) >> 4, np.arange(256) & 15], axis=1)]
"""Pairs of levels, indexed by byte. Shape (256, 2)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Nf4Tensor:
    """Weight in NF4: about 4.13 bits per weight. `num_blocks` is ceil(out * in / 64)."""

    shape: tuple[int, int]
    """Shape (out, in) of the weight."""
    codes: ByteArray
    """Two codes per byte, the first in the high nibble. Shape (ceil(out * in / 2),)."""
    absmax_codes: ByteArray
    """Code of each block's absmax. Shape (num_blocks,)."""
    absmax_scales: FloatArray
    """Largest |absmax - offset| of each 256 blocks. Shape (ceil(num_blocks / 256),)."""
    offset: np.float32
    """Mean absmax."""


def quantise(weight: FloatArray, *, name: str = "weight") -> Nf4Tensor:
    """Encode a weight (out, in); errors name it `name`.

    Raises:
        InputError: not fp32, not of two dimensions, empty, or with a NaN or an infinity.
    """
    if weight.ndim != 2 or weight.size == 0 or weight.dtype != np.float32:
        raise InputError(
            "this tensor cannot be held as NF4",
            field=name,
            value=f"{weight.dtype} {weight.shape}",
            allowed="float32 of shape (out, in), not empty",
        )
    blocks = _padded(weight.reshape(-1), BLOCK)
    chunks = [slice(start, start + _CHUNK) for start in range(0, len(blocks), _CHUNK)]
    absmax = np.concatenate([np.abs(blocks[chunk]).max(axis=1) for chunk in chunks])
    if not np.isfinite(absmax).all():
        row, column = np.argwhere(~np.isfinite(weight))[0].tolist()
        raise InputError(
            "a weight that is not finite cannot be held as NF4",
            field=f"{name}[{row}, {column}]",
            value=float(weight[row, column]),
            allowed="finite values",
            fix="check the file this weight was read from",
        )
    codes = np.concatenate([_weight_codes(blocks[chunk], absmax[chunk]) for chunk in chunks])
    offset = np.float32(math.fsum(absmax.tolist()) / absmax.size)
    absmax_codes, absmax_scales = _absmax_codes(absmax - offset)
    return Nf4Tensor(
        shape=(weight.shape[0], weight.shape[1]),
        codes=codes[: _num_bytes_of_codes(weight.size)],
        absmax_codes=absmax_codes,
        absmax_scales=absmax_scales,
        offset=offset,
    )


def block_absmax(tensor: Nf4Tensor) -> FloatArray:
    """Decode every block's absmax: map[code] * scale + offset, two fp32 roundings.

    Shape (num_blocks,). A value may be slightly negative if a block's absmax was near zero.
    """
    groups = DYNAMIC_LEVELS[_padded(tensor.absmax_codes, GROUP)]
    groups *= tensor.absmax_scales[:, None]
    groups += tensor.offset
    return groups.reshape(-1)[: tensor.absmax_codes.size]


def dequantise(tensor: Nf4Tensor) -> FloatArray:
    """Decode a weight: level[code] * absmax, one fp32 rounding. Shape (out, in)."""
    levels = _PAIRS[_padded(tensor.codes, BLOCK // 2)].reshape(-1, BLOCK)
    levels *= block_absmax(tensor)[:, None]
    return levels.reshape(-1)[: math.prod(tensor.shape)].reshape(tensor.shape)


def num_bytes(tensor: Nf4Tensor) -> int:
    """Return the bytes of one weight's arrays."""
    return sum(part.nbytes for key, part in to_parts(tensor).items() if key != "shape")


def to_parts(tensor: Nf4Tensor) -> dict[str, NDArray[np.generic]]:
    """Return the named arrays that `from_parts` reads, for a file of tensors."""
    return {
        "shape": np.array(tensor.shape, dtype=np.int64),
        "codes": tensor.codes,
        "absmax_codes": tensor.absmax_codes,
        "absmax_scales": tensor.absmax_scales,
        "offset": np.array([tensor.offset], dtype=np.float32),
    }


def from_parts(parts: Mapping[str, NDArray[np.generic]], *, name: str = "weight") -> Nf4Tensor:
    """Return the weight whose `to_parts` is `parts`; errors name it `name`.

    Raises:
        CheckpointError: a part is missing, unknown, or of the wrong dtype or size.
    """
    expected = ("absmax_codes", "absmax_scales", "codes", "offset", "shape")
    if tuple(sorted(parts)) != expected:
        raise CheckpointError(
            "an NF4 tensor has other parts", field=name, value=sorted(parts), allowed=", ".join(expected)
        )
    shape = _part(parts, "shape", np.dtype(np.int64), 2, name).tolist()
    if min(shape) < 1:
        raise CheckpointError("an NF4 tensor is empty", field=f"{name}.shape", value=shape, allowed=">= 1")
    num_blocks = -(-math.prod(shape) // BLOCK)
    byte, single = np.dtype(np.uint8), np.dtype(np.float32)
    return Nf4Tensor(
        shape=(shape[0], shape[1]),
        codes=_part(parts, "codes", byte, _num_bytes_of_codes(math.prod(shape)), name),
        absmax_codes=_part(parts, "absmax_codes", byte, num_blocks, name),
        absmax_scales=_part(parts, "absmax_scales", single, -(-num_blocks // GROUP), name),
        offset=_part(parts, "offset", single, 1, name)[0],
    )


def _padded(flat: NDArray[_T], width: int) -> NDArray[_T]:
    """Return `flat` as rows of `width`, the last one padded with zeros."""
    spare = -flat.size % width
    return (np.pad(flat, (0, spare)) if spare else flat).reshape(-1, width)


def _weight_codes(blocks: FloatArray, absmax: FloatArray) -> ByteArray:
    """Return per weight the number of thresholds below weight * (1 / absmax), two per byte."""
    scaled = blocks * (np.float32(1) / np.maximum(absmax, _TINY))[:, None]
    codes = np.zeros(scaled.shape, dtype=np.uint8)
    for threshold in _NF4_THRESHOLDS:
        codes += scaled > threshold  # 15 vector passes, several times faster than a binary search
    return ((codes[:, 0::2] << np.uint8(4)) | codes[:, 1::2]).reshape(-1)


def _absmax_codes(centred: FloatArray) -> tuple[ByteArray, FloatArray]:
    """Encode `centred` (num_blocks,) in groups; a group of zeros gets the scale 0."""
    groups = _padded(centred, GROUP)
    scales = np.abs(groups).max(axis=1)
    scaled = groups * (np.float32(1) / np.maximum(scales, _TINY))[:, None]
    codes = np.searchsorted(_DYNAMIC_THRESHOLDS, scaled.reshape(-1), side="left")
    return codes[: centred.size].astype(np.uint8), scales


def _num_bytes_of_codes(num_weights: int) -> int:
    return (num_weights + 1) // 2


def _part(parts: Mapping[str, NDArray[np.generic]], key: str, dtype: np.dtype[_T], size: int, name: str) -> NDArray[_T]:
    part = parts[key]
    if part.dtype != dtype or part.shape != (size,) or not np.isfinite(part).all():
        raise CheckpointError(
            "a part of an NF4 tensor does not fit",
            field=f"{name}.{key}",
            value=f"{part.dtype} {part.shape}",
            allowed=f"{dtype} ({size},), finite",
        )
    return part.view(dtype)
