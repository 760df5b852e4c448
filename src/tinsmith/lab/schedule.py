"""Which papers a step trains on, and when to evaluate and save: pure functions of the seed and the step.

An epoch is a permutation of its own; a step that crosses its end goes on in the next. Nothing is kept, so that a
resumed run needs no cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from tinsmith.types.seeds import derive, random_bits

T = TypeVar("T")

_SUBSET = derive(0, "subset")


def batch(items: Sequence[T], size: int, step: int, seed: int) -> list[T]:
    """Return the `size` items of step `step` (0 is the first)."""
    first = step * size
    return [items[_place(len(items), position, seed)] for position in range(first, first + size)]


def subset(items: Sequence[T], count: int) -> Sequence[T]:
    """Return at most `count` items (0: all), drawn whatever their order: a slice's begins with one label."""
    if count == 0 or count >= len(items):
        return items
    return [items[place] for place in sorted(_order(len(items), 0, _SUBSET)[:count])]


def due(step: int, every: int) -> bool:
    """Whether something that happens every so many steps happens before step `step`; 0 is never."""
    return every > 0 and step % every == 0


def saves_after(step: int, steps: int, every: int) -> bool:
    """Whether a checkpoint follows step `step`: every so many, and after the last; never where `every` is 0."""
    return every > 0 and (due(step + 1, every) or step + 1 == steps)


def _place(count: int, position: int, seed: int) -> int:
    epoch, within = divmod(position, count)
    return _order(count, epoch, seed)[within]


@lru_cache(maxsize=8)
def _order(count: int, epoch: int, seed: int) -> tuple[int, ...]:
    bits = random_bits(derive(seed, "order", epoch), count)
    return tuple(int(place) for place in np.argsort(bits, kind="stable"))
