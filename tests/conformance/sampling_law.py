"""The law every draw obeys, in plain Python integers and doubles.

A row's key is the low two words of Philox4x32-10 with counter (sample, position) and key `seed`;
token v takes SplitMix64's v-th word of that key, its upper 53 bits give u, and G = -ln(-ln(1 - u)).
The drawn token has the largest logit / temperature + G among those that top-k and top-p leave.
"""

import math

import numpy as np
from numpy.typing import NDArray

WORD = 0xFFFFFFFF
LONG = 0xFFFFFFFFFFFFFFFF

Words = tuple[int, ...]


def philox4x32(counter: Words, key: Words, rounds: int = 10) -> Words:
    """Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, sec. 3.3."""
    c, k = list(counter), list(key)
    for _ in range(rounds):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return tuple(c)


def row_key(seed: int, sample: int, position: int) -> int:
    counter = (sample & WORD, sample >> 32, position & WORD, position >> 32)
    words = philox4x32(counter, (seed & WORD, seed >> 32))
    return words[1] << 32 | words[0]


def splitmix64(key: int, index: int) -> int:
    """Word `index` (from 0) of the stream that starts at `key`."""
    z = (key + (index + 1) * 0x9E3779B97F4A7C15) & LONG
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & LONG
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & LONG
    return z ^ z >> 31


def gumbel(key: int, token: int) -> float:
    z = splitmix64(key, token) >> 11
    if z < 1 << 52:
        exponential = -math.log1p(-(z + 0.5) * 2.0**-53)
    else:
        exponential = -math.log(((1 << 53) - 1 - z + 0.5) * 2.0**-53)
    return -math.log(exponential)


def allowed_tokens(logits: NDArray[np.float32], temperature: float, top_k: int, top_p: float) -> list[int]:
    """The tokens a draw may give, most probable first, ties by lower id."""
    order = sorted(range(len(logits)), key=lambda v: (-float(logits[v]), v))
    if top_k > 0:
        order = order[:top_k]
    if top_p >= 1:
        return order
    largest = float(logits.max())
    mass = [math.exp((float(logits[v]) - largest) / temperature) for v in order]
    total, before, kept = sum(mass), 0.0, 0
    while kept < len(order) and before < top_p * total:
        before += mass[kept]
        kept += 1
    return order[: max(kept, 1)]


def draw(
    logits: NDArray[np.float32],
    seed: int,
    sample: int,
    position: int,
    temperature: float,
    top_k: int = 0,
    top_p: float = 1.0,
) -> int:
    if temperature == 0:
        return int(np.argmax(logits))
    scaled = logits / np.float32(temperature)
    key = row_key(seed, sample, position)
    candidates = allowed_tokens(logits, temperature, top_k, top_p)
    return max(candidates, key=lambda v: (float(scaled[v]) + gumbel(key, v), -v))
