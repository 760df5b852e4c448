"""A small house: four doors, behind each a holder, in each holder a thing; some errands, some visits without any.

    open DOOR    names the holder behind it; one door of each house is locked, and says so
    open HOLDER  names the thing in it, once its door is open
    take THING   the end where that is wanted and its holder is open, else no
    stop         the end

What is behind which door nobody says beforehand. Everything that can be opened is a checkpoint: they follow from the
house, and nobody has to name them. In errands the wanted thing mostly is behind the first door, so that a habit pays;
after a failure it never is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from random import Random
from typing import Final

from tinsmith.types.seeds import derive

DOORS: Final = ("north", "east", "south", "west")
HOLDERS: Final = ("bag", "box", "jar", "pot")
THINGS: Final = ("candle", "drum", "glove", "hammer", "key", "lamp", "needle", "rope")
OPEN: Final = "open"
TAKE: Final = "take"
STOP: Final = "stop"
LOCKED: Final = "locked"
NO: Final = "no"
MOST_REPLIES: Final = 6
USUAL: Final = 0.75
"""Of the errands, how many find their thing behind the first door."""


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
    things: tuple[str, ...]
    """In each holder."""
    locked: str
    """The door that does not open."""
    wanted: str
    """A thing; empty: none."""

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
    holders, things = (tuple(random.sample(some, len(DOORS))) for some in (HOLDERS, THINGS))
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
        things=things,
        locked=DOORS[locked],
        wanted="" if place < 0 else things[place],
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
        case ["open", what]:
            if what == visit.locked:
                return LOCKED
            if what not in opened(visit, said):
                return NO
            if what in DOORS:
                return visit.holders[DOORS.index(what)]
            return visit.things[visit.holders.index(what)]
        case ["take", _]:
            return None if found(visit, said) else NO
        case _:
            return None


def found(visit: Visit, said: Sequence[str]) -> bool:
    """Whether the last action takes the thing that is wanted, from a holder that is open."""
    if not visit.wanted or said[-1] != f"{TAKE} {visit.wanted}":
        return False
    return visit.holders[visit.things.index(visit.wanted)] in opened(visit, said[:-1])


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
    """Return the habit: the first door, what is behind it, and what is wanted."""
    last = f"{TAKE} {visit.wanted}" if visit.wanted else STOP
    return [f"{OPEN} {DOORS[0]}", f"{OPEN} {visit.holders[0]}", last]
