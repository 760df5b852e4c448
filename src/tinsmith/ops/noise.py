"""Noise of a draw, in torch: a function of (seed, sample, position, token) alone.

The law is the native kernels' own (`native/choose.cpp`); here the logarithms are torch's, so that the last bits may
differ.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_WORD = np.uint64(0xFFFFFFFF)
_HALF_WORD = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))


def stream_keys(
    seeds: NDArray[np.uint64], samples: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return each row's 64-bit key: Philox4x32-10 of counter (sample, position) under key `seed`.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; the low two of
    four output words.
    """
    sample, position = samples.astype(np.uint64), positions.astype(np.uint64)
    c0, c1 = sample & _WORD, sample >> _HALF_WORD
    c2, c3 = position & _WORD, position >> _HALF_WORD
    k0, k1 = seeds & _WORD, seeds >> _HALF_WORD
    for _ in range(10):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1 = (b >> _HALF_WORD) ^ c1 ^ k0, b & _WORD
        c2, c3 = (a >> _HALF_WORD) ^ c3 ^ k1, a & _WORD
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return (c1 << _HALF_WORD) | c0


def gumbel(keys: NDArray[np.uint64], num_tokens: int, device: torch.device) -> Tensor:
    """Return standard Gumbel noise, fp64 (len(keys), num_tokens).

    Token v takes SplitMix64's word v of its row's key: u in (0, 1) with 53 bits, -ln(-ln(1 - u)).
    """
    key_N = torch.from_numpy(keys.view(np.int64)).to(device)
    token_V = torch.arange(1, num_tokens + 1, device=device)
    z = key_N[:, None] + token_V * _signed(0x9E3779B97F4A7C15)
    z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
    z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
    z = _shifted(z ^ _shifted(z, 31), 11)
    u = (z.double() + 0.5) * 2.0**-53
    rest = ((2**53 - 1 - z).double() + 0.5) * 2.0**-53  # 1 - u, computed so that its small values are exact
    return -torch.log(torch.where(u < 0.5, -torch.log1p(-u), -torch.log(rest)))


def _signed(word: int) -> int:
    """Return the int64 with these 64 bits: torch multiplies and adds it modulo 2**64."""
    return word - (1 << 64) if word >> 63 else word


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Shift right logically; torch's own shift repeats the sign."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)
