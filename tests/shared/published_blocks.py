"""Random matrices in the types of published files."""

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

_HALVES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
"""Bytes of a block at which its fp16 scales lie, where that is not only the first."""


def random_blocks(type: str, out: int, inner: int, seed: int, *, largest: int = 1) -> NDArray[np.uint8]:
    """Rows of random blocks with finite scales of all sizes, subnormal and negative ones and zeros among them."""
    draw = np.random.default_rng(seed)
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[type]]
    if block == 1:
        values = draw.standard_normal((out, inner)) * 10.0 ** draw.integers(-7, 2, (out, inner))
        if type == "F16":
            return values.astype(np.float16).view(np.uint8)
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    blocks = draw.integers(0, 256, (out * inner // block, size), dtype=np.uint8)
    for at in _HALVES.get(type, (0,)):
        scales = draw.standard_normal(len(blocks)) * 10.0 ** draw.integers(-7, largest, len(blocks))
        scales[draw.random(len(blocks)) < 0.1] = 0.0
        blocks[:, at : at + 2] = scales.astype(np.float16)[:, None].view(np.uint8)
    return blocks.reshape(out, -1)
