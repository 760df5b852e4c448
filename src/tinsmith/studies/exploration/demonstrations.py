"""How a small base is shown to go through a house: mostly in loops, now and then looking at what it has not seen."""

from __future__ import annotations

from random import Random
from typing import Final

from tinsmith.studies.exploration.world import DOORS, MOST_REPLIES, OPEN, STOP, Visit, answer

CAREFUL: Final = 0.12
"""Of the demonstrations, how many never do anything again."""
_AGAIN: Final = 0.4
_STOPS: Final = 0.05
"""In the others: how often the last action is done again, and the visit ends."""


def shown(visit: Visit, random: Random) -> list[str]:
    """Return the actions of one demonstration."""
    careful = random.random() < CAREFUL
    seen = list(DOORS)
    said: list[str] = []
    while len(said) < MOST_REPLIES:
        said.append(_next(visit, random, said, seen, careful=careful))
        heard = answer(visit, said)
        if heard is None:
            break
        if heard in visit.holders and heard not in seen:
            seen.append(heard)
    return said


def _next(visit: Visit, random: Random, said: list[str], seen: list[str], *, careful: bool) -> str:
    new = [one for one in seen if f"{OPEN} {one}" not in said]
    if careful:
        inner = [one for one in new if one in visit.holders]
        return f"{OPEN} {random.choice(inner or new)}" if new else STOP
    drawn = random.random()
    if said and drawn < _AGAIN:
        return said[-1]
    if drawn < _AGAIN + _STOPS:
        return STOP
    return f"{OPEN} {random.choice(seen)}"
