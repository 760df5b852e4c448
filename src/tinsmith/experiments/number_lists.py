"""Numbers and lists of them as a study is told them: `1,2,3`; learning rates; and seeds, of which none chose a rate."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TypeVar

from tinsmith.experiments.key_text import unreadable
from tinsmith.types.errors import ConfigError

N = TypeVar("N", int, float)


def numbers(key: str, text: str, kind: type[N]) -> list[N]:
    """Read a key's numbers with commas between them.

    Raises:
        ConfigError: one of them is none.
    """
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise unreadable(key, text, "numbers with commas between them") from None


def count(key: str, text: str, least: int) -> int:
    """Read a whole number.

    Raises:
        ConfigError: it is none, or below `least`.
    """
    found = numbers(key, text, int)
    if len(found) != 1 or found[0] < least:
        raise ConfigError(
            "this number is too small", field=key, value=text, allowed=f"{least} or more"
        )
    return found[0]


def learning_rates(key: str, text: str, *, least: int = 1) -> tuple[float, ...]:
    """Read learning rates to choose from, from the lowest to the highest.

    Raises:
        ConfigError: fewer than `least`, one twice, or one that is not above 0 and finite.
    """
    found = sorted(numbers(key, text, float))
    rising = all(low < high for low, high in pairwise(found))
    if len(found) < least or not rising or not all(0 < one < math.inf for one in found):
        raise ConfigError(
            "a list of learning rates is needed",
            field=key,
            value=text,
            allowed=f"{least} or more different ones, above 0, with commas between them",
        )
    return tuple(found)


def seeds_apart(text: str, tuning: str, *, least: int = 1) -> tuple[tuple[int, ...], int]:
    """Read `seeds`, which are reported, and `tuning_seed`, by which learning rates are chosen.

    Raises:
        ConfigError: fewer than `least`, one twice, one below 0, or the rates were chosen by one that is reported.
    """
    found, first = numbers("seeds", text, int), numbers("tuning_seed", tuning, int)
    if len(set(found)) < max(len(found), least) or min(found) < 0:
        raise ConfigError(
            "a comparison over seeds needs several of them",
            field="seeds",
            value=text,
            allowed=f"{least} or more different ones, 0 or more, with commas between them",
        )
    if len(first) != 1 or first[0] < 0:
        raise ConfigError(
            "one seed is needed to choose rates by", field="tuning_seed", value=tuning
        )
    if first[0] in found:
        raise ConfigError(
            "the seed that chose the rates cannot be reported",
            field="tuning_seed",
            value=first[0],
            allowed=f"none of {text}",
        )
    return tuple(found), first[0]
