"""The two ways in which a base's matrices lie in memory; neither changes a bit of what is computed."""

from __future__ import annotations

from enum import StrEnum


class Hold(StrEnum):
    """Form of a base's matrices in memory."""

    PUBLISHED = "published"
    """As its file has them, widened for each product; as fp32 where that is no type the kernels widen."""
    FP32 = "fp32"
