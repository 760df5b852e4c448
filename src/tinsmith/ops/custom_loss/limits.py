"""Limits on a custom loss's size and work, counted in elements, independent of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.types.errors import InputError

MAX_INPUTS: Final = 16
"""Most inputs, including the model's log-probabilities."""
MAX_NODES: Final = 512
MAX_CONSTANTS: Final = 4096
"""Most numbers, texts, references and the like in all arguments of a graph together."""
MAX_DEPTH: Final = 8
"""Deepest nesting of lists, tuples and dicts in an argument."""
MAX_TEXT: Final = 128
"""Longest name, target or text of a node, in characters."""
MAX_DIMENSIONS: Final = 8
MAX_ELEMENTS: Final = 1 << 22
"""Most elements of one value: 32 MiB."""
MAX_DATUM_WORK: Final = 1 << 26
"""Most elements that the operations of one datum's loss and gradient read and write."""
MAX_CONSTANT_WORK: Final = 1 << 22
"""Most elements read and written for values that depend on no input, computed when a loss is created."""
MAX_REQUEST_WORK: Final = 1 << 29
"""Most elements read and written for all datums of a request."""


@dataclass(slots=True)
class Work:
    """Budget of elements to read and write for a request."""

    left: int = MAX_REQUEST_WORK


def require_shape(shape: Sequence[int]) -> None:
    """Reject a shape beyond the limits.

    Raises:
        InputError: too many dimensions, a negative one, or too many elements.
    """
    if len(shape) > MAX_DIMENSIONS or any(size < 0 for size in shape):
        raise InputError(
            f"a value cannot have the shape {tuple(shape)[: MAX_DIMENSIONS + 1]}",
            allowed=f"at most {MAX_DIMENSIONS} dimensions, none negative",
        )
    if math.prod(max(size, 1) for size in shape) > MAX_ELEMENTS:  # a size of 0 does not lift the limit on the others
        raise InputError(f"a value of shape {tuple(shape)} is too large", allowed=f"at most {MAX_ELEMENTS} elements")
