"""Which papers a step trains on, and when to evaluate and save: pure functions of the seed and the step.

An epoch is a permutation of its own; a step that crosses its end goes on in the next. Nothing is kept, so that a
resumed run needs no cursor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias, TypeVar

import numpy as np

from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive, random_bits

T = TypeVar("T")
Unit: TypeAlias = Callable[[T], str] | None  # Says which items belong together; None: each stands alone.

_SUBSET = derive(0, "subset")


def batch(
    items: Sequence[T],
    size: int,
    step: int,
    seed: int,
    unit: Unit[T] = None,
    order_of: Callable[[int, Sequence[Sequence[T]]], Sequence[int]] | None = None,
) -> list[T]:
    """Return the `size` items of step `step` (0 is the first); items of one unit are adjacent.

    `order_of` returns the places of an epoch's units in place of a permutation.
    """
    first, units = step * size, units_of(items, unit)
    found: list[T] = []
    epoch, before = divmod(first, len(items))
    while len(found) < size:
        order = _order(len(units), epoch, seed) if order_of is None else order_of(epoch, units)
        found += islice((one for place in order for one in units[place]), before, before + size - len(found))
        epoch, before = epoch + 1, 0
    return found


def subset(items: Sequence[T], count: int, unit: Unit[T] = None) -> Sequence[T]:
    """Return a random subset of at most `count` items (0: all), independent of their order.

    Units are taken whole, and the first of them even where it has more items than that.
    """
    if count == 0 or count >= len(items):
        return items
    units = units_of(items, unit)
    taken: list[int] = []
    for place in _order(len(units), 0, _SUBSET):
        count -= len(units[place])
        if taken and count < 0:
            break
        taken.append(place)
    return [one for place in sorted(taken) for one in units[place]]


def due(step: int, every: int) -> bool:
    """Return True if an event with this period occurs before step `step`; period 0 means never."""
    return every > 0 and step % every == 0


def saves_after(step: int, steps: int, every: int) -> bool:
    """Return true if a checkpoint follows step `step`: every so many, and after the last; never where `every` is 0."""
    return every > 0 and (due(step + 1, every) or step + 1 == steps)


def units_of(items: Sequence[T], unit: Unit[T]) -> Sequence[Sequence[T]]:
    """Return items by their unit, in the order in which each is first met."""
    if unit is None:
        return [(one,) for one in items]
    found: dict[str, list[T]] = {}
    for one in items:
        found.setdefault(unit(one), []).append(one)
    return list(found.values())


@lru_cache(maxsize=8)
def _order(count: int, epoch: int, seed: int) -> tuple[int, ...]:
    bits = random_bits(derive(seed, "order", epoch), count)
    return tuple(int(place) for place in np.argsort(bits, kind="stable"))


NONE: Final = "none"
_RATIO: Final = re.compile(r"([1-9]\d{0,3}):([1-9]\d{0,3})")


@dataclass(frozen=True, slots=True)
class Turn:
    """Batch of one step: its pool, and the number of earlier steps with that pool."""

    aside: bool
    before: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """So many batches of the main items to so many of those aside."""

    main: int
    aside: int

    def turn(self, step: int) -> Turn:
        """Return the batch of a step; 0 is the first.

        >>> ["aside" if Ratio(2, 1).turn(step).aside else "main" for step in range(6)]
        ['main', 'main', 'aside', 'main', 'main', 'aside']
        """
        before = step * self.aside // (self.main + self.aside)
        aside = (step + 1) * self.aside // (self.main + self.aside) > before
        return Turn(aside=aside, before=before if aside else step - before)


def ratio_of(text: str) -> Ratio | None:
    """Read `A:B`; None: `none`, and every batch is of main items."""
    if text == NONE:
        return None
    found = _RATIO.fullmatch(text)
    if found is None:
        allowed = "none, or A:B with whole numbers from 1 to 9999, such as 5:1"
        raise ConfigError("this is a ratio of batches", field="interleave", value=text, allowed=allowed)
    return Ratio(int(found[1]), int(found[2]))
