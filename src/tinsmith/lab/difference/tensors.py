"""Values and tensors in which two runs are unequal: by their names, and by how much as sketches tell it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from tinsmith.types.sketches import distance

ABSENT = "absent"  # Placeholder for a value that one of the records lacks.


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """A value that is another in the second record."""

    name: str
    first: object
    second: object


def unequal_fields(first: Mapping[str, object], second: Mapping[str, object]) -> tuple[FieldDifference, ...]:
    """Return the unequal values by name, sorted; of two lists only what the other does not hold."""
    one, two = dict(_flat(first, "")), dict(_flat(second, ""))
    found: list[FieldDifference] = []
    for name in sorted({*one, *two}):
        a, b = one.get(name, ABSENT), two.get(name, ABSENT)
        if not same(a, b):
            if isinstance(a, list) and isinstance(b, list):
                a, b = _without(a, b), _without(b, a)
            found.append(FieldDifference(name=name, first=a, second=b))
    return tuple(found)


def same(a: object, b: object) -> bool:
    """True if two values of JSON are written alike: 1 is not 1.0, and 0.0 is not -0.0."""
    return type(a) is type(b) and repr(a) == repr(b)


def _flat(record: Mapping[str, object], above: str) -> Iterator[tuple[str, object]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(cast(Mapping[str, object], value), f"{above}{key}.")
        else:
            yield above + key, value


def _without(values: list[object], others: list[object]) -> list[object]:
    """Return the values that are not among the others; all where only their order differs."""
    return [value for value in values if value not in others] or values


Marks = Mapping[str, object]  # By tensor: `sha256`, `norm` and `sketch`, as a line of the trace has them.


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorDifference:
    """The first unequal tensor by name, and the extent of it.

    A size is ||a - b|| / ||a||, estimated from sketches (by about a quarter either way); None where a value is not
    finite, where one run does not have the tensor, or where a is all zeros.
    """

    substep: int  # Which of the step's optimizer steps.
    tensor: str
    size: float | None
    largest: str  # The tensor with the largest size.
    largest_size: float | None
    all_size: float | None  # Of all tensors as one vector.
    tensors: int  # Unequal ones.
    of_tensors: int


def unequal_tensors(substep: int, first: Marks, second: Marks) -> TensorDifference | None:
    """Compare the gradients, or the weights, of one optimizer step by their hashes; None: all are equal."""
    names = sorted({*first, *second})
    unequal = [name for name in names if _sha256(first, name) != _sha256(second, name)]
    if not unequal:
        return None
    apart = {name: _apart(first, second, name) for name in names}
    sizes = {name: _size(*each) if (each := apart[name]) else None for name in unequal}
    largest = max(unequal, key=lambda name: sizes[name] or 0.0)
    known = [each for each in apart.values() if each is not None]
    whole = _size(math.hypot(*(distance for distance, _ in known)), math.hypot(*(norm for _, norm in known)))
    return TensorDifference(
        substep=substep,
        tensor=unequal[0],
        size=sizes[unequal[0]],
        largest=largest,
        largest_size=sizes[largest],
        all_size=whole if len(known) == len(names) else None,
        tensors=len(unequal),
        of_tensors=len(names),
    )


def _sha256(marks: Marks, name: str) -> object:
    return cast(Mapping[str, object], marks.get(name) or {}).get("sha256")


def _size(distance: float, norm: float) -> float | None:
    return distance / norm if norm > 0.0 else None


def _apart(first: Marks, second: Marks, name: str) -> tuple[float, float] | None:
    """Return a tensor's distance and its norm in the first run."""
    a, b = (cast(Mapping[str, object], marks.get(name) or {}) for marks in (first, second))
    one, two = (cast(list[float] | None, mark.get("sketch")) for mark in (a, b))
    norm = a.get("norm")
    if one is None or two is None or len(one) != len(two) or not isinstance(norm, int | float):
        return None
    return distance(one, two), float(norm)
