"""Random generators of resamples and sign flips, by seed and use."""

from __future__ import annotations

import numpy as np

from tinsmith.types.seeds import derive


def generator(seed: int, *path: str | int) -> np.random.Generator:
    """Return the random generator for one named use of `seed`."""
    return np.random.Generator(np.random.PCG64(derive(seed, "analysis", *path)))
