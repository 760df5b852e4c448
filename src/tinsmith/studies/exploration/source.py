"""`tinsmith run house`: errands in small houses, and visits without any, as a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

from tinsmith.lab.user_task.named import NamedTask, require_only
from tinsmith.lab.user_task.source import OwnKey
from tinsmith.lab.user_task.task import Task, Value, of_conversation
from tinsmith.studies.exploration.demonstrations import shown
from tinsmith.studies.exploration.world import (
    DOORS,
    LOCKED,
    MOST_REPLIES,
    OPEN,
    STOP,
    Kind,
    Visit,
    answer,
    coverage,
    found,
    repeated,
    usual,
    visits,
)
from tinsmith.types.errors import ConfigError
from tinsmith.types.fingerprints import file_sha256

NAME: Final = "house"
QUESTION: Final = "Does the model find keys in houses that it has not seen, and look around in them?"
_HOW: Final = (
    f"You are in a house with doors: {' '.join(DOORS)}. Reply with one action and nothing else: '{OPEN} DOOR' names "
    f"what is behind it, '{OPEN} HOLDER' looks into that, '{STOP}' ends. You have {MOST_REPLIES} actions.\n\n"
)
TRAIN_ITEMS: Final = 400
HELD_OUT: Final = 32
_READ_BY_BASE: Final = 4_000


class Pays(StrEnum):
    """What a visit without an errand earns."""

    COVERAGE = "coverage"
    CHANCE = "chance"
    """A number that what was done draws: a control, from which no way to look around can be learned."""


KEYS: Final = (
    OwnKey(
        name="pays",
        kind=str,
        default=Pays.COVERAGE.value,
        words="What a visit without an errand earns: coverage, or chance (a control: fixed by what was done).",
    ),
    OwnKey(name="explain", kind=bool, default=False, words="Whether the prompt has the actions."),
    OwnKey(name="base_steps", kind=int, default=300, words="Steps that the small base is trained."),
)


def house_task(rest: str, given: Mapping[str, str]) -> NamedTask:
    """Return the task.

    Raises:
        ConfigError: it is named with a colon, as there is only one.
    """
    del given
    require_only(NAME, rest)
    files = ("source.py", "world.py", "demonstrations.py")
    digests = {name: file_sha256(Path(__file__).with_name(name)) for name in files}
    return NamedTask(found_at=NAME, keys=KEYS, sha256=digests, entry=_made)


def kind_of(item: str) -> Kind:
    """Return what an item is for, by its name.

    >>> kind_of("explore-train-0001").value
    'explore'
    """
    return Kind(item.split("-")[0])


def _asked(visit: Visit, *, explain: bool) -> list[dict[str, str]]:
    """Return what is asked; where an action has failed before, it stands there as the model's own."""
    wish = "Find the key." if visit.key_in else "Look around."
    said = [{"role": "user", "content": f"{_HOW if explain else ''}{wish}"}]
    for action in visit.failed:
        said += [{"role": "assistant", "content": action}, {"role": "user", "content": LOCKED}]
    return said


def _reply(visit: Visit, said: Sequence[str]) -> str | None:
    """Return what an action brings; what has failed before is one of the actions that there are."""
    if len(visit.failed) + len(said) >= MOST_REPLIES:
        return None
    return answer(visit, said)


def _chance(visit: Visit, said: Sequence[str]) -> float:
    return sha256("\n".join([visit.id, *said]).encode()).digest()[0] / 255


def _made(values: Mapping[str, Value]) -> Task:
    pays = str(values["pays"])
    if pays not in list(Pays):
        raise ConfigError("a visit cannot earn this", field="pays", value=pays, allowed=", ".join(Pays))
    explain = bool(values["explain"])

    def earned(visit: Visit, said: Sequence[str]) -> float:
        if visit.kind is not Kind.EXPLORE:
            return float(found(visit, said))
        return _chance(visit, said) if pays == Pays.CHANCE else float(coverage(visit, said))

    return Task(
        name=NAME,
        question=QUESTION,
        items=[*visits(TRAIN_ITEMS, Kind.ERRAND, "train"), *visits(TRAIN_ITEMS, Kind.EXPLORE, "train")],
        held_out=[one for kind in Kind for one in visits(HELD_OUT, kind, "held")],
        aside=lambda visit: visit.kind is Kind.EXPLORE,
        prompt=lambda visit: _asked(visit, explain=explain),
        parse=str.strip,
        reply=_reply,
        max_turns=MOST_REPLIES,
        reward={"earned": of_conversation(earned)},
        metrics={
            "right": of_conversation(found),
            "coverage": of_conversation(lambda visit, said: float(coverage(visit, said))),
            "repeated": of_conversation(lambda visit, said: float(repeated(visit, said))),
        },
        item_id=lambda visit: visit.id,
        demonstrate=shown,
        base_items=[
            *visits(_READ_BY_BASE // 2, Kind.ERRAND, "base"),
            *visits(_READ_BY_BASE // 2, Kind.EXPLORE, "base"),
        ],
        base_steps=int(values["base_steps"]),
        baselines={"the first door and what is behind it": usual},
        keys={"max_tokens": 8, "eval_items": HELD_OUT * len(Kind)},
    )
