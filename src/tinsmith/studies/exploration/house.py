"""A task, `tinsmith run house`: four doors, and behind each a holder; errands for a key, and visits without any errand.

    open DOOR    names the holder behind it; one door of each house is locked, and says so
    open HOLDER  the end where the key that is wanted is in it, else empty; its door has to be open
    stop         the end

What is behind which door nobody says beforehand. Everything that can be opened is a checkpoint. In errands the key
mostly is behind the first door, so that a habit pays; after a failure it never is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from hashlib import sha256
from random import Random
from typing import Final

from tinsmith.lab.user_task.task import Task, of_conversation
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

DOORS: Final[tuple[str, ...]] = ("north", "east", "south", "west")
HOLDERS: Final[tuple[str, ...]] = ("bag", "box", "jar", "pot")
OPEN: Final = "open"
STOP: Final = "stop"
LOCKED: Final = "locked"
EMPTY: Final = "empty"
NO: Final = "no"
MOST_REPLIES: Final = 6
USUAL: Final = 0.75  # Of the errands, how many find the key behind the first door.


class Kind(StrEnum):
    """Purposes of an item."""

    ERRAND = "errand"
    EXPLORE = "explore"  # Nothing is wanted.
    RECOVER = "recover"  # An errand that begins with an action that has failed.


@dataclass(frozen=True, slots=True)
class Visit:
    """One item: a house, and what is wanted in it."""

    id: str
    kind: Kind
    holders: tuple[str, ...]  # Behind each door.
    locked: str  # The door that does not open.
    key_in: str  # The holder that has the key; empty: none is wanted.

    @property
    def checkpoints(self) -> frozenset[str]:
        """Everything that can be opened."""
        both = zip(DOORS, self.holders, strict=True)
        return frozenset(one for pair in both if pair[0] != self.locked for one in pair)

    @property
    def failed(self) -> tuple[str, ...]:
        """Actions before the model's first reply, which failed."""
        return (f"{OPEN} {self.locked}",) if self.kind is Kind.RECOVER else ()


def visits(count: int, kind: Kind, side: str) -> tuple[Visit, ...]:
    """Return houses of one kind; `side` keeps those of two sides apart."""
    return tuple(_visit(kind, side, number) for number in range(count))


def _visit(kind: Kind, side: str, number: int) -> Visit:
    random = Random(derive(0, "house", side, kind.value, number))
    holders = tuple(random.sample(HOLDERS, len(DOORS)))
    match kind:
        case Kind.ERRAND:
            place = 0 if random.random() < USUAL else random.randrange(1, len(DOORS))
            locked = random.choice([one for one in range(1, len(DOORS)) if one != place])
        case Kind.RECOVER:
            place, locked = random.randrange(1, len(DOORS)), 0
        case Kind.EXPLORE:
            place, locked = -1, random.randrange(len(DOORS))
    key_in = "" if place < 0 else holders[place]
    return Visit(f"{kind.value}-{side}-{number:04d}", kind, holders, DOORS[locked], key_in)


def opened(visit: Visit, said: Sequence[str]) -> frozenset[str]:
    """Return the checkpoints that these actions reach."""
    reached = set[str]()
    behind = dict(zip(visit.holders, DOORS, strict=True))
    for action in said:
        *verb, what = action.split() or [""]
        if verb == [OPEN] and what in visit.checkpoints and (what not in behind or behind[what] in reached):
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
    """Return true if the holder with the key that is wanted was opened."""
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


CAREFUL: Final = 0.12  # Of the demonstrations, how many never do anything again.
_AGAIN: Final = 0.4
_STOPS: Final = 0.05  # In the others: how often the last action is done again, and the visit ends.


def shown(visit: Visit, random: Random) -> list[str]:
    """Return the actions of one demonstration."""
    careful = random.random() < CAREFUL
    seen: list[str] = list(DOORS)
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


TRAIN_ITEMS: Final = 400
HELD_OUT: Final = 32
_EVERY_DOOR: Final = tuple(f"{OPEN} {one}" for one in (*DOORS, *HOLDERS[:2]))
_READ_BY_BASE: Final = 2_000  # Of both kinds.
PAYS: Final = ("coverage", "chance")
_HOW: Final = (
    f"You are in a house with doors: {' '.join(DOORS)}. Reply with one action and nothing else: '{OPEN} DOOR' names "
    f"what is behind it, '{OPEN} HOLDER' looks into that, '{STOP}' ends. You have {MOST_REPLIES} actions.\n\n"
)


def kind_of(item: str) -> Kind:
    """Return what an item is for, by its name.

    >>> kind_of("explore-train-0001").value
    'explore'
    """
    return Kind(item.split("-")[0])


def house(pays: str = "coverage", explain: bool = False, base_steps: int = 300) -> Task:
    """Return errands in small houses, and visits without any.

    pays: What a visit without an errand earns: coverage, or chance (a control: fixed by what was done).
    explain: Put the actions into the prompt.
    base_steps: Steps that the small base is trained.
    """
    if pays not in PAYS:
        raise ConfigError("a visit cannot earn this", field="pays", value=pays, allowed=PAYS)

    def asked(visit: Visit) -> list[dict[str, str]]:
        """Return what is asked; where an action has failed before, it stands there as the model's own."""
        wish = "Find the key." if visit.key_in else "Look around."
        said = [{"role": "user", "content": f"{_HOW if explain else ''}{wish}"}]
        for action in visit.failed:
            said += [{"role": "assistant", "content": action}, {"role": "user", "content": LOCKED}]
        return said

    def reply(visit: Visit, said: Sequence[str]) -> str | None:
        """Return what an action brings; what has failed before is one of the actions that there are."""
        return None if len(visit.failed) + len(said) >= MOST_REPLIES else answer(visit, said)

    def earned(visit: Visit, said: Sequence[str]) -> float:
        if visit.kind is not Kind.EXPLORE:
            return float(found(visit, said))
        if pays == "chance":
            return sha256("\n".join([visit.id, *said]).encode()).digest()[0] / 255
        return float(coverage(visit, said))

    return Task(
        name="house",
        question="Does the model find keys in houses whose contents nobody says, and look around in them?",
        items=[one for kind in (Kind.ERRAND, Kind.EXPLORE) for one in visits(TRAIN_ITEMS, kind, "train")],
        held_out=[one for kind in Kind for one in visits(HELD_OUT, kind, "held")],
        aside=lambda visit: visit.kind is Kind.EXPLORE,
        prompt=asked,
        parse=str.strip,
        reply=reply,
        max_turns=MOST_REPLIES,
        reward={"earned": of_conversation(earned)},
        metrics={
            "right": of_conversation(found),
            "coverage": of_conversation(lambda visit, said: float(coverage(visit, said))),
            "repeated": of_conversation(lambda visit, said: float(repeated(visit, said))),
        },
        item_id=lambda visit: visit.id,
        demonstrate=shown,
        base_items=[one for kind in (Kind.ERRAND, Kind.EXPLORE) for one in visits(_READ_BY_BASE, kind, "base")],
        base_steps=base_steps,
        baselines={
            "the first door and what is behind it": usual,
            "every door, then two holders": lambda visit: _EVERY_DOOR[: MOST_REPLIES - len(visit.failed)],
        },
        keys={"max_tokens": 8, "eval_items": HELD_OUT * len(Kind)},
    )


def kind(named: str) -> Callable[[str], bool]:
    """Return the test of whether an item, by its id, is of a kind."""
    return lambda item: item.startswith(f"{named}-")
