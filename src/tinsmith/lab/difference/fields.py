"""Which values of two nested records are unequal, by their dotted names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

ABSENT = "absent"
"""What stands for a value that one of the records does not have."""


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
    """Whether two values of JSON are written alike: 1 is not 1.0, and 0.0 is not -0.0."""
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
