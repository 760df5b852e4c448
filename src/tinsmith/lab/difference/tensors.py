"""In which tensors an optimizer step of two runs is unequal, and by how much as their sketches tell it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tinsmith.types.sketches import distance

Marks = Mapping[str, object]
"""By tensor: `sha256`, `norm` and `sketch`, as a line of the trace has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDifference:
    """The first unequal tensor by name, and the extent of it.

    A size is ||a - b|| / ||a||, estimated from sketches (by about a quarter either way); None where a value is not
    finite, where one run does not have the tensor, or where a is all zeros.
    """

    substep: int
    """Which of the step's optimizer steps."""
    tensor: str
    size: float | None
    largest: str
    """The tensor with the largest size."""
    largest_size: float | None
    all_size: float | None
    """Of all tensors as one vector."""
    tensors: int
    """Unequal ones."""
    of_tensors: int


@dataclass(frozen=True, slots=True)
class _Apart:
    distance: float
    norm: float

    @property
    def size(self) -> float | None:
        return self.distance / self.norm if self.norm > 0.0 else None


def unequal_tensors(substep: int, first: Marks, second: Marks) -> TensorDifference | None:
    """Compare the gradients, or the weights, of one optimizer step by their hashes; None: all are equal."""
    names = sorted({*first, *second})
    unequal = [name for name in names if _sha256(first, name) != _sha256(second, name)]
    if not unequal:
        return None
    apart = {name: _apart(first, second, name) for name in names}
    sizes = {name: each.size if (each := apart[name]) else None for name in unequal}
    largest = max(unequal, key=lambda name: sizes[name] or 0.0)
    known = [each for each in apart.values() if each is not None]
    whole = _Apart(math.hypot(*(each.distance for each in known)), math.hypot(*(each.norm for each in known)))
    return TensorDifference(
        substep=substep,
        tensor=unequal[0],
        size=sizes[unequal[0]],
        largest=largest,
        largest_size=sizes[largest],
        all_size=whole.size if len(known) == len(names) else None,
        tensors=len(unequal),
        of_tensors=len(names),
    )


def _sha256(marks: Marks, name: str) -> object:
    return cast(Mapping[str, object], marks.get(name) or {}).get("sha256")


def _apart(first: Marks, second: Marks, name: str) -> _Apart | None:
    a, b = (cast(Mapping[str, object], marks.get(name) or {}) for marks in (first, second))
    one, two = (cast(list[float] | None, mark.get("sketch")) for mark in (a, b))
    norm = a.get("norm")
    if one is None or two is None or len(one) != len(two) or not isinstance(norm, int | float):
        return None
    return _Apart(distance(one, two), float(norm))
