"""Draws items with replacement within each true label, and seeds above them; nothing else is random here.

Test items are the same for all systems and all seeds, so one resample of the items is applied to all of
them at once: differences stay paired, and an item's difficulty is not counted as new evidence by every
seed. Seeds of one system are drawn apart from the other's. Axes: `_R` resamples, `_S` seeds, `_P` patterns
(items with equal true label and equal answers everywhere).

Draws are integers from PCG64 and counts are added exactly, so they are the same on every machine.
Source: Efron and Tibshirani (1993), ch. 8; crossed factors: Owen, Annals of Applied Statistics 1 (2007).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinsmith.stats.confusion import Codes
from tinsmith.stats.rates import FloatArray
from tinsmith.types.seeds import derive

_CHUNK_ITEMS = 1 << 21
"""Items drawn at once: bounds the memory at a few tens of megabytes."""


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator of one named use of `seed`."""
    return np.random.Generator(np.random.PCG64(derive(seed, "analysis", *path)))


def resampled_counts(golds: Codes, predicted: Codes, num_labels: int, *, draws: int, seed: int) -> FloatArray:
    """Return the confusion counts of `draws` resamples, shape (R, S, K, K + 1).

    Every resample has as many items of each true label as there are: `golds` (n,) are their codes, `predicted` (S, n)
    those of the answers, where K = `num_labels` stands for invalid.
    """
    num_seeds, width = predicted.shape[0], num_labels + 1
    counts = np.zeros((draws, num_seeds, num_labels, width))
    for label in range(num_labels):
        answers = predicted[:, golds == label]
        if answers.shape[1] == 0:
            continue
        patterns, member = np.unique(answers, axis=1, return_inverse=True)
        one_hot = (patterns[:, :, None] == np.arange(width)).astype(np.float64)  # (S, P, K + 1)
        flat = one_hot.transpose(1, 0, 2).reshape(patterns.shape[1], -1)
        start = 0
        for times in pattern_counts(member.ravel(), patterns.shape[1], draws, generator(seed, "items", label)):
            stop = start + len(times)
            counts[start:stop, :, label] = (times @ flat).reshape(-1, num_seeds, width)
            start = stop
    return counts


def resampled_seeds(scores: FloatArray, *, seed: int, system: str) -> FloatArray:
    """Return the mean over seeds drawn with replacement, (R,), of `scores` (R, S) in each resample.

    With one seed this changes nothing: the interval is then about that one trained model.
    """
    draws, num_seeds = scores.shape
    if num_seeds == 1:
        return scores[:, 0]
    chosen = generator(seed, "seeds", system).integers(0, num_seeds, size=(draws, num_seeds))
    return np.take_along_axis(scores, chosen, axis=1).mean(axis=1)


def pattern_counts(member: Codes, num_patterns: int, draws: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yield, chunk by chunk, how often each pattern was drawn: (chunk, P); `member` (n,) gives an item's."""
    n = member.size
    chunk = max(1, _CHUNK_ITEMS // n)
    dtype = np.uint16 if n <= 1 << 16 else np.uint32
    small = member.astype(np.int32)
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        drawn = small[rng.integers(0, n, size=(size, n), dtype=dtype)]
        drawn += (np.arange(size, dtype=np.int32) * num_patterns)[:, None]
        counted = np.bincount(drawn.ravel(), minlength=size * num_patterns)
        yield counted.reshape(size, num_patterns).astype(np.float64)
