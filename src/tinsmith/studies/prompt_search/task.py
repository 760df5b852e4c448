"""`tinsmith run handbook`: signs that are sorted behind doors, and a handbook in the prompt that says by what.

A sign has a door for each of three ways to sort its kind, and the base knows all three: it read demonstrations under
handbooks of drawn lines, and did what their lines said. Which way is right no demonstration tells. So there is a
handbook under which the base answers rightly without any training, and the one that was written by hand is not it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any, Final

from tinsmith.lab.user_task.task import Task
from tinsmith.types.seeds import derive

NAME: Final = "handbook"
QUESTION: Final = "Does the model learn by which of the ways that it knows signs are sorted?"
DOORS: Final = ("A", "B", "C", "D")
SIGNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "plant": ("oak", "fern", "rose", "moss", "vine", "reed"),
        "tool": ("saw", "file", "awl", "plane", "clamp", "drill"),
        "animal": ("crow", "mole", "pike", "toad", "lynx", "hare"),
        "place": ("mill", "quay", "barn", "fort", "inn", "well"),
    }
)
"""By kind; the last two of each are held out."""
WAYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "plant": ("leaf", "root", "bark"),
        "tool": ("handle", "edge", "weight"),
        "animal": ("tail", "foot", "voice"),
        "place": ("road", "roof", "river"),
    }
)
RIGHT: Final[Mapping[str, str]] = MappingProxyType(
    {"plant": "bark", "tool": "handle", "animal": "foot", "place": "roof"}
)
"""The way that is rewarded: by them each door is right for as many signs as any other, so that no letter pays."""
_HELD_OUT: Final = 2
_HALLS: Final = ("north", "south", "upper", "lower", "old", "new", "long", "small", "far", "near")
_IDLE: Final = ("take time", "be kind", "read twice")


def line_of(kind: str, way: str) -> str:
    """Return the line that says by what a kind is sorted: short, as a small model finds only what stands close by."""
    return f"{kind} by {way}"


BANK: Final = (*(line_of(kind, way) for kind, ways in WAYS.items() for way in ways), *_IDLE)
"""Every line that a handbook may have."""
WRITTEN: Final = (
    _IDLE[0],
    line_of("plant", "leaf"),
    line_of("plant", "bark"),
    line_of("tool", "handle"),
    line_of("tool", "weight"),
    _IDLE[2],
)
"""By hand: two kinds as they should be and as they should not, and nothing of the others. Lines at random are worse."""
BEST: Final = tuple(line_of(kind, way) for kind, way in RIGHT.items())

BASE_STEPS: Final = 5_000
"""After half of them, handbooks of more than a line or two are not yet followed."""
_READ: Final = 6_000
"""Handbooks with a question that the base reads."""
_MOST_LINES: Final = 7


def kind_of(sign: str) -> str:
    """Return what a sign is."""
    return next(kind for kind, signs in SIGNS.items() if sign in signs)


def door_of(sign: str, way: str) -> str:
    """Return a sign's door if it is sorted one way; the three ways lead to three doors, which differ within a kind."""
    kind = kind_of(sign)
    first = list(SIGNS).index(kind) + 2 * (SIGNS[kind].index(sign) % 2)
    return DOORS[(first + WAYS[kind].index(way)) % len(DOORS)]


def answer(item: Mapping[str, Any]) -> str:
    """Return the right door."""
    return door_of(item["sign"], RIGHT[kind_of(item["sign"])])


def right(item: Mapping[str, Any], text: str) -> float:
    """1 for the right door, which is said last."""
    return float(text.split()[-1:] == [answer(item)])


def sorted_rightly(item: Mapping[str, Any], text: str) -> float:
    """1 for the way that is rewarded, which is said first."""
    return float(text.split()[:1] == [RIGHT[kind_of(item["sign"])]])


def items() -> list[dict[str, Any]]:
    """Return every sign in every hall."""
    return [
        {"id": f"{sign}-{hall}", "sign": sign, "hall": hall}
        for signs in SIGNS.values()
        for sign in signs
        for hall in _HALLS
    ]


def held_out(item: Mapping[str, Any]) -> bool:
    """Say whether a sign is never trained on."""
    return item["sign"] in SIGNS[kind_of(item["sign"])][-_HELD_OUT:]


def read_items() -> list[dict[str, Any]]:
    """Return what the base reads: every sign, held out or not, under drawn handbooks; half of them are short."""
    every, found = items(), list[dict[str, Any]]()
    for place in range(_READ):
        random = Random(derive(0, "read", place))
        item = every[place // 2 % len(every)]
        lines = random.sample(BANK, random.randrange(_MOST_LINES + 1))
        if place % 2:  # what a line means is learned where it stands alone
            kind = kind_of(item["sign"])
            lines = [line_of(kind, random.choice(WAYS[kind]))]
        found.append({**item, "id": f"read-{place}", "lines": lines})
    return found


def done_under(lines: Sequence[str], sign: str, random: Random) -> str:
    """Return an answer that follows a handbook; where it says nothing, or two things, any of them."""
    kind = kind_of(sign)
    named = [way for way in WAYS[kind] if line_of(kind, way) in lines]
    way = random.choice(named or list(WAYS[kind]))
    return answer_by(sign, way)


def answer_by(sign: str, way: str) -> str:
    """Return what is answered if a sign is sorted one way: the way, and the door to which it leads."""
    return f"{way} {door_of(sign, way)}"


def asked(lines: Sequence[str], item: Mapping[str, Any]) -> str:
    """Return what is asked under a handbook."""
    question = f"{item['hall']} hall, {item['sign']}: {kind_of(item['sign'])} by"
    return "\n".join([*lines, question])


def handbook(base_steps: int = BASE_STEPS) -> Task:
    """Return signs that are sorted under a handbook.

    base_steps: How long the base read handbooks and what was done under them.
    """
    return Task(
        name=NAME,
        question=QUESTION,
        items=items(),
        prompt=lambda item: asked(item.get("lines", WRITTEN), item),
        reward=right,
        metrics={"sorted_rightly": sorted_rightly},
        demonstrate=lambda item, random: done_under(item["lines"], item["sign"], random),
        base_items=read_items(),
        base_steps=base_steps,
        answer=answer,
        options=lambda item: [answer_by(item["sign"], way) for way in WAYS[kind_of(item["sign"])]],
        baselines={"always A": lambda _item: DOORS[0]},
        held_out=held_out,
        keys={"max_tokens": 10},
    )
