"""A small house: four doors, and behind each a holder; some errands for a key, some visits without any errand.

    open DOOR    names the holder behind it; one door of each house is locked, and says so
    open HOLDER  the end where the key that is wanted is in it, else empty; its door has to be open
    stop         the end

What is behind which door nobody says beforehand. Everything that can be opened is a checkpoint: they follow from the
house, and nobody has to name them. In errands the key mostly is behind the first door, so that a habit pays; after a
failure it never is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from random import Random
from typing import Final

from tinsmith.types.seeds import derive

DOORS: Final[tuple[str, ...]] = ("north", "east", "south", "west")
HOLDERS: Final[tuple[str, ...]] = ("bag", "box", "jar", "pot")
OPEN: Final = "open"
STOP: Final = "stop"
LOCKED: Final = "locked"
EMPTY: Final = "empty"
NO: Final = "no"
MOST_REPLIES: Final = 6
USUAL: Final = 0.75
"""Of the errands, how many find the key behind the first door."""


class Kind(StrEnum):
    """What an item is for."""

    ERRAND = "errand"
    EXPLORE = "explore"
    """Nothing is wanted."""
    RECOVER = "recover"
    """An errand that begins with an action that has failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One item: a house, and what is wanted in it."""

    id: str
    kind: Kind
    holders: tuple[str, ...]
    """Behind each door."""
    locked: str
    """The door that does not open."""
    key_in: str
    """The holder that has the key; empty: none is wanted."""

    @property
    def checkpoints(self) -> frozenset[str]:
        """Everything that can be opened."""
        both = zip(DOORS, self.holders, strict=True)
        return frozenset(one for pair in both if pair[0] != self.locked for one in pair)

    @property
    def failed(self) -> tuple[str, ...]:
        """What was done before the model's first reply, and failed."""
        return (f"{OPEN} {self.locked}",) if self.kind is Kind.RECOVER else ()


def visits(count: int, kind: Kind, side: str) -> tuple[Visit, ...]:
    """Return houses of one kind; `side` keeps those of two sides apart."""
    return tuple(
        _visit(Random(derive(0, "house", side, kind.value, number)), kind, f"{side}-{number:04d}")
        for number in range(count)
    )


def _visit(random: Random, kind: Kind, name: str) -> Visit:
    holders = tuple(random.sample(HOLDERS, len(DOORS)))
    match kind:
        case Kind.ERRAND:
            place = 0 if random.random() < USUAL else random.randrange(1, len(DOORS))
            locked = random.choice([one for one in range(1, len(DOORS)) if one != place])
        case Kind.RECOVER:
            place, locked = random.randrange(1, len(DOORS)), 0
        case Kind.EXPLORE:
            place, locked = -1, random.randrange(len(DOORS))
    return Visit(
        id=f"{kind.value}-{name}",
        kind=kind,
        holders=holders,
        locked=DOORS[locked],
        key_in="" if place < 0 else holders[place],
    )


def opened(visit: Visit, said: Sequence[str]) -> frozenset[str]:
    """Return the checkpoints that these actions reach."""
    reached = set[str]()
    behind = dict(zip(visit.holders, DOORS, strict=True))
    for action in said:
        what = action.removeprefix(f"{OPEN} ")
        there = what in visit.checkpoints and (what not in behind or behind[what] in reached)
        if there and action == f"{OPEN} {what}":
            reached.add(what)
    return frozenset(reached)


def answer(visit: Visit, said: Sequence[str]) -> str | None:
    """Return what the last action brings; None: the conversation is over."""
    match said[-1].split():
        case ["open", what] if what == visit.locked:
            return LOCKED
        case ["open", what] if what not in opened(visit, said):
            return NO
        case ["open", what] if what in DOORS:
            return visit.holders[DOORS.index(what)]
        case ["open", what]:
            return None if what == visit.key_in else EMPTY
        case _:
            return None


def found(visit: Visit, said: Sequence[str]) -> bool:
    """Whether the holder with the key that is wanted was opened."""
    return visit.key_in in opened(visit, said)


def coverage(visit: Visit, said: Sequence[str]) -> Fraction:
    """Return the share of the checkpoints that were reached: ECC of arXiv:2605.16143."""
    return Fraction(len(opened(visit, said)), len(visit.checkpoints))


def repeated(visit: Visit, said: Sequence[str]) -> Fraction:
    """Return the share of the actions that were done before in the same visit."""
    every = (*visit.failed, *said)
    first = len(visit.failed)
    again = sum(every[place] in every[:place] for place in range(first, len(every)))
    return Fraction(again, len(said))


def usual(visit: Visit) -> list[str]:
    """Return the habit: the first door, and what is behind it."""
    return [f"{OPEN} {DOORS[0]}", f"{OPEN} {visit.holders[0]}"]
