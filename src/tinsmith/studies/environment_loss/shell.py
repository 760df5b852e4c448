"""A task, `tinsmith run shell`: files in places, and four commands, of which one answers alike every time.

    ls PLACE        the two files that are there
    history         a command that found some file before, as it was typed: `get FILE PLACE`
    pwd             always the same
    get FILE PLACE  the end where the file is there, else no

Where files are is the same in every conversation of a world: what the shell answers can be learned, and what is learned
from it finds files that nobody was paid for yet. How a run's steps went in the shell is counted at the end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from random import Random
from statistics import fmean
from typing import Final

import tinsmith as ts
from tinsmith.lab.runs.records import TaskRollout
from tinsmith.lab.user_task.task import Task, of_conversation
from tinsmith.stats.diversity import WINDOW, Boredom, StepCounts, boredom
from tinsmith.types.errors import ConfigError
from tinsmith.types.seeds import derive

PLACES: Final = (
    *("attic", "barn", "cellar", "den", "field", "garage"),
    *("hall", "kitchen", "loft", "office", "porch", "shed"),
)
FILES: Final = (
    *("anchor", "basket", "candle", "drum", "engine", "feather"),
    *("glove", "hammer", "ink", "jacket", "kettle", "lamp"),
    *("mirror", "needle", "orange", "pencil", "quilt", "rope"),
    *("saddle", "ticket", "umbrella", "violin", "whistle", "yarn"),
)
USERS: Final = ("ann", "ben", "cleo", "dan", "eve", "finn", "gus", "hana", "ivo", "jane")
LS: Final = "ls"
HISTORY: Final = "history"
PWD: Final = "pwd"
GET: Final = "get"
HOME: Final = "home"
NO: Final = "no"
MOST_REPLIES: Final = 4


class Facts(StrEnum):
    """Facts that `history` and `ls` show."""

    TRUE = "true"
    SCRAMBLED = "scrambled"  # Another world's at every look: a control, from which nothing can be learned.


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """One item: a file that somebody wants."""

    id: str
    file: str
    user: str
    world: int
    facts: Facts

    @property
    def place(self) -> str:
        """Place of the file."""
        return places_of(self.world)[self.file]


@cache
def places_of(world: int) -> dict[str, str]:
    """Return where every file of a world is; two are in each place."""
    files = list(FILES)
    Random(derive(0, "shell", world)).shuffle(files)
    return {name: PLACES[place // 2] for place, name in enumerate(files)}


def answer(errand: Errand, said: Sequence[str]) -> str | None:
    """Return what the shell answers to the last command; None: the conversation is over."""
    words = said[-1].split()
    seed = derive(0, "answer", errand.id, len(said))
    true = errand.facts is Facts.TRUE
    where = places_of(errand.world if true else -1 - seed % 2**31)
    match words:
        case ["ls", place] if place in PLACES:
            return " ".join(sorted(name for name in FILES if where[name] == place))
        case ["history"]:
            name = Random(seed).choice(FILES)
            return f"{GET} {name} {where[name]}"
        case ["pwd"]:
            return HOME
        case ["get", name, _] if not found(errand, said) and name in FILES:
            return NO
        case _:
            return None


def found(errand: Errand, said: Sequence[str]) -> bool:
    """Return true if the last command gets the file that is wanted."""
    return said[-1].split() == [GET, errand.file, errand.place]


def errands(world: int, facts: Facts, *, held_out: bool) -> tuple[Errand, ...]:
    """Return who wants what: every file is wanted by eight users in training, and by the other two beside it."""
    return tuple(
        Errand(id=f"{name}-{user}", file=name, user=user, world=world, facts=facts)
        for at, name in enumerate(FILES)
        for place, user in enumerate(USERS)
        if ((place + at) % 5 == 0) is held_out
    )


def other_worlds(count: int) -> tuple[Errand, ...]:
    """Return errands of which each is in a world of its own: what a small base reads, so that it knows no place."""
    drawn = Random(derive(0, "other worlds"))
    return tuple(
        Errand(
            id=f"other-{number}",
            file=drawn.choice(FILES),
            user=drawn.choice(USERS),
            world=1_000 + number,
            facts=Facts.TRUE,
        )
        for number in range(count)
    )


def shown(errand: Errand, random: Random) -> list[str]:
    """Return the commands of one demonstration: at random, but what was told of the file is used every other time."""
    said, known = list[str](), ""
    for _ in range(MOST_REPLIES):
        if known and random.random() < 0.5:
            said.append(f"{GET} {errand.file} {known}")
        else:
            command = random.choices((LS, HISTORY, PWD, GET), (0.35, 0.25, 0.15, 0.25))[0]
            place = random.choice(PLACES)
            said.append({LS: f"{LS} {place}", GET: f"{GET} {errand.file} {place}"}.get(command, command))
        heard = answer(errand, said)
        if heard is None:
            break
        told = heard.split()
        if said[-1].startswith(LS) and errand.file in told:
            known = said[-1].split()[1]
        elif said[-1] == HISTORY and told[1] == errand.file:
            known = told[2]
    return said


_READ_BY_BASE: Final = 4_000
_HOW: Final = (
    f"You are in a shell. Reply with one command and nothing else: 'ls PLACE', 'history', 'pwd' or '{GET} FILE PLACE'. "
    f"Places: {' '.join(PLACES)}. You have {MOST_REPLIES} commands.\n\n"
)


def shell(world: int = 0, facts: str = "true", explain: bool = False, base_steps: int = 600) -> Task:
    """Return files that somebody wants, in a small shell.

    world: Draws which files are where.
    facts: What the shell tells: true, or scrambled (a control: another world's at every look).
    explain: Put the commands into the prompt.
    base_steps: Steps that the small base is trained.
    """
    if facts not in list(Facts):
        raise ConfigError("a shell cannot tell this", field="facts", value=facts, allowed=Facts)
    if not 0 <= world < 1_000:
        raise ConfigError("there is no such world", field="world", value=world, allowed="0 to 999")
    return Task(
        name="shell",
        question="Does the model learn where files are, from what a shell answers?",
        items=errands(world, Facts(facts), held_out=False),
        held_out=errands(world, Facts(facts), held_out=True),
        prompt=lambda item: f"{_HOW if explain else ''}{item.user} wants the {item.file}.",
        parse=str.strip,
        reply=answer,
        max_turns=MOST_REPLIES,
        reward={"found": of_conversation(found)},
        metrics={"right": of_conversation(found), "commands": of_conversation(lambda _, said: len(said))},
        item_id=lambda item: item.id,
        demonstrate=shown,
        base_items=other_worlds(_READ_BY_BASE),
        base_steps=base_steps,
        baselines={
            "always the first place": lambda item: f"{GET} {item.file} {PLACES[0]}",
            "four places in turn": lambda item: [  # It ends where the file is, as the conversation does.
                f"{GET} {item.file} {one}" for one in PLACES[: min(MOST_REPLIES, PLACES.index(item.place) + 1)]
            ],
        },
        keys={"max_tokens": 8, "eval_items": 48},
    )


HALF: Final = 0.5


def heard(run: tuple[TaskRollout, ...]) -> list[StepCounts]:
    """Return what was said and answered in each step of a run's training."""
    steps: defaultdict[int, list[TaskRollout]] = defaultdict(list)
    for one in run:
        steps[one.step].append(one)
    return [
        StepCounts(
            commands=tuple(turn.text for line in lines for turn in line.turns if turn.role == "assistant"),
            answers=tuple(turn.text for line in lines for turn in line.turns if turn.role == "user"),
            solved=sum(line.metrics["right"] for line in lines) / len(lines),
        )
        for _, lines in sorted(steps.items())
    ]


def to_half(success: list[float]) -> int | None:
    """Return the step after which half of the conversations of the last steps succeeded; None: never."""
    ends = range(WINDOW, len(success) + 1)
    return next((end for end in ends if sum(success[end - WINDOW : end]) / WINDOW >= HALF), None)


def bored(arm: ts.ArmRuns) -> list[Boredom]:
    """Return what the first and last steps of the runs were like; a run of too few steps is left out."""
    return [found for run in arm.trained_on() if (found := boredom(heard(run))) is not None]


def of_boredom(read: Callable[[Boredom], float]) -> Callable[[ts.ArmRuns], float | None]:
    """Return a figure of the first or last steps: a mean over the runs."""

    def mean(arm: ts.ArmRuns) -> float | None:
        found = [read(one) for one in bored(arm)]
        return fmean(found) if found else None

    return mean
