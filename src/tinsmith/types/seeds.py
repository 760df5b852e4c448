"""Seeds derived by path from one root, and the counter-based random bits of every draw.

Nothing here has state: a draw is a pure function of (seed, index), so that neither batch size nor order of requests can
shift it.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_GOLDEN = 0x9E3779B97F4A7C15


def derive(root: int, *path: str | int) -> int:
    """Return the 64-bit child seed of `root` at `path`: the first 8 bytes of blake2b over both.

    Equal under any PYTHONHASHSEED, on any machine; distinct paths give unrelated seeds.

    >>> derive(0, "rollout", 3) == derive(0, "rollout", 3)
    True
    >>> derive(0, "rollout", 3) == derive(0, "rollout", 4)
    False
    """
    text = repr((int(root), *path)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def random_bits(seed: int, count: int) -> NDArray[np.uint64]:
    """Return `count` 64-bit words, word i being SplitMix64's i-th output for `seed`.

    Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    index = np.arange(1, count + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = np.uint64(seed & 0xFFFFFFFFFFFFFFFF) + index * np.uint64(_GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, shape: tuple[int, ...], bound: float) -> NDArray[np.float32]:
    """Draw an array of `shape`, uniform on [-bound, bound), from exact integer and fp64 steps.

    The same bits on every machine: no transcendental function is used.
    """
    count = int(np.prod(shape, dtype=np.int64))
    unit = (random_bits(seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return ((2.0 * unit - 1.0) * bound).astype(np.float32).reshape(shape)
