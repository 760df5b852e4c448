"""Frequencies of rotary position embeddings, with the same bits on every machine.

The rotation itself is in `ops`.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

from tinsmith.models.config import DecoderConfig, LinearScaling, Llama3Scaling

_DIGITS = 50


def inverse_frequencies(config: DecoderConfig) -> NDArray[np.float32]:
    """Return the angle (radians per position) by which each pair of a head's channels turns.

    Shape: (head_dim / 2,). The published float32 steps, in their order, each rounded to nearest:
    a model was trained with the result of these steps, not with the ideal powers. The power alone
    has no one float32 result in libraries; here it is correctly rounded, through `decimal`.

    Source: arXiv:2104.09864 sec. 3.2.2; scalings as in transformers' `modeling_rope_utils`.
    """
    frequencies = np.float32(1) / _powers(config.rope_theta, config.head_dim)
    match config.rope_scaling:
        case None:
            return frequencies
        case LinearScaling(factor=factor):
            return frequencies / np.float32(factor)
        case Llama3Scaling() as scaling:
            return _rescale_llama3(frequencies, scaling)


def _powers(theta: float, head_dim: int) -> NDArray[np.float32]:
    context = Context(prec=_DIGITS)
    base = Decimal(float(np.float32(theta)))
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    powers = [context.power(base, Decimal(float(exponent))) for exponent in exponents]
    return np.array([_nearest_float32(power, context) for power in powers], dtype=np.float32)


def _nearest_float32(value: Decimal, context: Context) -> np.float32:
    # Via float64 alone, a value next to the middle of two float32 could be rounded twice.
    near = np.float32(float(value))
    candidates = (near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(np.inf)))
    return min(candidates, key=lambda c: abs(context.subtract(Decimal(float(c)), value)))


def _rescale_llama3(frequencies: NDArray[np.float32], scaling: Llama3Scaling) -> NDArray[np.float32]:
    """Divide long wavelengths by the factor, keep short ones, blend those between.

    Quotients of a number by an array are reciprocal, then product, as torch computes them.
    """
    one, factor = np.float32(1), np.float32(scaling.factor)
    length = scaling.original_max_positions
    wavelengths = np.float32(2 * math.pi) * (one / frequencies)
    long = wavelengths > np.float32(length / scaling.low_freq_factor)
    short = wavelengths < np.float32(length / scaling.high_freq_factor)

    span = np.float32(scaling.high_freq_factor - scaling.low_freq_factor)
    periods = np.float32(length) * (one / wavelengths)
    share = (periods - np.float32(scaling.low_freq_factor)) / span
    blended = (one - share) * frequencies / factor + share * frequencies
    return np.where(long, frequencies / factor, np.where(short, frequencies, blended))
